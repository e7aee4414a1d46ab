"""Base of the tables that show one kind of a trace's events.

They hold nothing of their own: the columns stay in the traces, and a DataFrame is made
when somebody asks for it. Times are ns since 1970 where the trace tells its base, else as
the trace counts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import Struct

from necropsy_parsers.records import Record
from necropsy_parsers.trace.model import Trace

from necropsy.evidence import Table

if TYPE_CHECKING:
    import pandas as pd

    from necropsy_parsers.trace.columns import Columns

TRACED: Final = {
    "rank": "rank of the process, -1 where neither trace nor name tells",
    "input": "the trace's file",
    "name": "the event's name",
    "start": "ns; since 1970 where the trace tells its base",
    "duration": "ns",
    "process": "as the trace numbers it; of GPU work the device",
    "thread": "as the trace numbers it; of GPU work the stream",
}
SUPPLY: Final = "a trace of torch's profiler (torch.profiler.profile(...), prof.export_chrome_trace)"


class TracedEvent(Struct, frozen=True):
    """What events of all kinds have in common; the others' columns are in `columns` of their tables."""

    rank: int
    input: str
    name: str
    start: int
    duration: int
    process: str
    thread: str


class TraceTable(Table[TracedEvent]):
    """One row an event of `kinds`; `numbers` and `texts` are its columns besides the common ones."""

    row = TracedEvent
    accepts = (Trace,)
    formats = ("kineto",)
    supply = SUPPLY
    kinds: ClassVar[tuple[str, ...]]
    numbers: ClassVar[tuple[str, ...]] = ()
    texts: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[Trace] = []

    def add(self, record: Record) -> None:
        """Take a trace."""
        assert isinstance(record, Trace)
        self.traces.append(record)

    def covered(self, formats: frozenset[str]) -> bool:
        """Whether any trace holds events of these kinds."""
        return len(self) > 0

    def __len__(self) -> int:
        return sum(len(c) for _, c in self._parts())

    def __iter__(self) -> Iterator[TracedEvent]:
        for trace, columns in self._parts():
            yield from (_row(trace, columns, i) for i in range(len(columns)))

    def _parts(self) -> Iterator[tuple[Trace, Columns]]:
        for trace in self.traces:
            for kind in self.kinds:
                if kind in trace.kinds:
                    yield trace, trace.kinds[kind]

    def frame(self) -> pd.DataFrame:
        """The rows as a DataFrame with the documented columns."""
        import pandas as pd

        parts = [self._frame(trace, columns) for trace, columns in self._parts()]
        whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({c: [] for c in self.columns})
        return whole[list(self.columns)]

    def _frame(self, trace: Trace, columns: Columns) -> pd.DataFrame:
        import pandas as pd

        rank = -1 if trace.origin.rank is None else trace.origin.rank
        found: dict[str, Any] = {
            "rank": rank,
            "input": trace.anchor.input,
            "name": pd.Categorical.from_codes(columns["name"], pd.Index(trace.names, dtype=object)),
            "start": columns["start"] + trace.meta.base,
            "duration": columns["end"] - columns["start"],
            "process": _labels(trace.processes)[columns["process"]],
            "thread": _labels(trace.threads)[columns["thread"]],
        }
        for number in self.numbers:
            found[number] = columns[number]
        for text in self.texts:
            shown = [t.decode("utf-8", "replace").strip('"') for t in trace.texts]
            found[text] = pd.Categorical.from_codes(columns[text], pd.Index(_unique(shown), dtype=object))
        return pd.DataFrame(found, index=pd.RangeIndex(len(columns)))


def _row(trace: Trace, columns: Columns, i: int) -> TracedEvent:
    return TracedEvent(
        -1 if trace.origin.rank is None else trace.origin.rank,
        trace.anchor.input,
        trace.names[int(columns["name"][i])],
        int(columns["start"][i]) + trace.meta.base,
        int(columns["end"][i] - columns["start"][i]),
        str(trace.processes[int(columns["process"][i])]),
        str(trace.threads[int(columns["thread"][i])]),
    )


def _labels(values: list[int | str]) -> Any:
    import numpy as np

    return np.array([str(v) for v in values], object)


def _unique(texts: list[str]) -> list[str]:
    """Categories must differ: `"a"` and `a` are told apart by their index."""
    seen: dict[str, int] = {}
    found = []
    for text in texts:
        n = seen[text] = seen.get(text, -1) + 1
        found.append(text if n == 0 else f"{text} ({n})")
    return found
