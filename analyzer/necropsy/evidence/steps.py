"""Steps, and where their time went."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from necropsy.evidence.traces import Traces

if TYPE_CHECKING:
    import pandas as pd

_BUCKETS = {
    "compute": "ns in which kernels ran",
    "communication": "ns in which a collective ran and nothing else",
    "copies": "ns in which a copy or memset ran and no kernel",
    "kernel_gaps": "ns between kernels that were submitted in time, below 30 us each",
    "queue": "ns in which work was submitted and had not begun",
    "data_loading": "ns: nothing ran, the host waited in its DataLoader",
    "compiling": "ns: nothing ran, the host was compiling, or recording CUDA graphs",
    "saving": "ns: nothing ran, the host wrote a checkpoint",
    "collecting_garbage": "ns: nothing ran, the host was in gc.collect()",
    "allocating": "ns: nothing ran, the host took memory from the driver or gave it back",
    "synchronising": "ns: nothing ran, the host waited for the device",
    "dispatching": "ns: nothing ran, the host was inside operators or launching them",
    "python": "ns: nothing ran, the host was between operators",
}


class StepRow(Struct, frozen=True):
    """One step of one rank; the buckets add up to its duration."""

    rank: int
    input: str
    number: int
    found_by: str
    start: int
    duration: int


class StepTable(Traces):
    """One row a step and rank, with the exact partition of its wall time."""

    name = "steps"
    row = StepRow  # type: ignore[assignment]
    columns: ClassVar[dict[str, str]] = {
        "rank": "rank of the process, -1 where neither trace nor name tells",
        "input": "the trace's file",
        "number": "as annotated, or counted from 0",
        "found_by": "annotation, optimizer, function, or window (no steps found)",
        "start": "ns; since 1970 where the trace tells its base",
        "duration": "ns",
        **_BUCKETS,
    }

    def __len__(self) -> int:
        return sum(len(p.steps) for p in self.profiles) if self.traces else 0

    def __iter__(self) -> Iterator[StepRow]:  # type: ignore[override]
        for p in self.profiles if self.traces else ():
            rank = -1 if p.origin.rank is None else p.origin.rank
            for i in range(len(p.steps)):
                start, end = int(p.steps.start[i]), int(p.steps.end[i])
                number, base = int(p.steps.number[i]), p.trace.meta.base
                yield StepRow(rank, p.input, number, p.steps.how, start + base, end - start)

    def frame(self) -> pd.DataFrame:
        """The rows as a DataFrame with the documented columns."""
        import pandas as pd

        found: dict[str, list[Any]] = {c: [] for c in self.columns}
        for row in self:
            for c in ("rank", "input", "number", "found_by", "start", "duration"):
                found[c].append(getattr(row, c))
        for p in self.profiles if self.traces else ():
            for bucket, ns in p.partition.buckets.items():
                found[bucket.lower().replace(" ", "_")] += ns.tolist()
        return pd.DataFrame(found)
