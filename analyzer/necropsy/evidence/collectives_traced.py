"""Collectives of traces, one row a collective and rank, matched across ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from necropsy.evidence.traces import Traces

if TYPE_CHECKING:
    import pandas as pd

    from necropsy.trace.profile import Profile


class CollectiveRow(Struct, frozen=True):
    """A collective of one rank; `columns` of the table tell more."""

    rank: int
    input: str
    name: str
    group: str
    start: int
    duration: int


class TracedCollectives(Traces):
    """One row a collective and rank; NCCL's and RCCL's kernels, or gloo's ranges on the CPU."""

    name = "collectives"
    row = CollectiveRow  # type: ignore[assignment]
    columns: ClassVar[dict[str, str]] = {
        "rank": "rank of the process, -1 where neither trace nor name tells",
        "input": "the trace's file",
        "name": "all-reduce, all-gather, reduce-scatter, all-to-all, broadcast, ...",
        "group": "process group and its ranks; ? where the trace does not tell",
        "elements": "of the larger of input and output, -1 where not told",
        "dtype": "as torch names it",
        "bytes": "elements times their size, -1 where not told",
        "ranks": "number of ranks in the group, -1 where not told",
        "start": "ns since 1970 by the reference rank's clock where ranks were matched, else by its own",
        "duration": "ns, waiting for the last rank included",
        "waited": "ns until the last rank came; -1 where no other rank's trace shows it",
        "exposed": "ns of it in which nothing computed",
        "bus_bandwidth": "GB/s by nccl-tests' factors, from the last arrival where known",
        "match": "number that the same collective has on all matched ranks; -1 without a match",
    }

    def __len__(self) -> int:
        return sum(len(c) for _, c in self._found())

    def covered(self, formats: frozenset[str]) -> bool:
        """Whether any trace holds a collective."""
        return bool(formats & set(self.formats)) and len(self) > 0

    def _found(self) -> Iterator[tuple[Profile, Any]]:
        from necropsy.trace.collectives import collectives_of

        for p in self.profiles if self.traces else ():
            yield p, collectives_of(p)

    def __iter__(self) -> Iterator[CollectiveRow]:  # type: ignore[override]
        for p, c in self._found():
            rank = -1 if p.origin.rank is None else p.origin.rank
            for start, end, what in zip(c.start.tolist(), c.end.tolist(), c.what.tolist(), strict=True):
                s = c.signatures[what]
                yield CollectiveRow(rank, p.input, s.name, s.group, start + p.trace.meta.base, end - start)

    def frame(self) -> pd.DataFrame:
        """The rows as a DataFrame with the documented columns."""
        import pandas as pd

        from necropsy.trace.fleet import matches

        matched = matches(self.fleets)
        parts = [_frame(p, c, matched.get(id(p))) for p, c in self._found() if len(c)]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({c: [] for c in self.columns})


def _frame(p: Profile, c: Any, matched: Any) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    from necropsy.trace.collectives import bus_bandwidth, exposed

    def told(value: Any) -> Any:
        return np.array([value(s) for s in c.signatures], object)[c.what]

    number, waited = np.full(len(c), -1), np.full(len(c), -1)
    offset = p.trace.meta.base
    if matched is not None:
        number, waited, offset = matched.number, matched.waited, matched.offset
    transfer = c.end - c.start - np.maximum(waited, 0)
    speed = np.full(len(c), np.nan)
    for i, s in enumerate(c.signatures):
        mine = c.what == i
        speed[mine] = bus_bandwidth(s, transfer[mine])
    return pd.DataFrame({
        "rank": -1 if p.origin.rank is None else p.origin.rank, "input": p.input, "name": told(lambda s: s.name),
        "group": told(lambda s: s.group), "elements": told(lambda s: max(s.elements_in, s.elements_out)).astype(int),
        "dtype": told(lambda s: s.dtype), "bytes": told(lambda s: s.bytes).astype(int),
        "ranks": told(lambda s: s.size).astype(int), "start": c.start + offset, "duration": c.end - c.start,
        "waited": waited, "exposed": exposed(p).within(c.start, c.end), "bus_bandwidth": speed, "match": number,
    })  # fmt: skip
