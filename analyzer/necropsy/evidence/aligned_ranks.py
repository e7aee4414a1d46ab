"""Ranks of one job that were recorded together, and how well their clocks agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from necropsy.evidence.traces import Traces

if TYPE_CHECKING:
    import pandas as pd


class AlignedRank(Struct, frozen=True):
    """A rank of a job of which several were recorded."""

    job: int
    rank: int
    input: str
    offset: int
    residual: int
    matched: int
    trusted: bool


class AlignedRanks(Traces):
    """One row a rank; rules that compare ranks ask for it."""

    name = "aligned_ranks"
    row = AlignedRank  # type: ignore[assignment]
    supply = "traces of two or more ranks of a job, recorded in the same steps"
    columns: ClassVar[dict[str, str]] = {
        "job": "number of the job, from 0: ranks whose recordings overlap",
        "rank": "rank of the process",
        "input": "the trace's file",
        "offset": "ns to add to the trace's times (since 1970) for those of the job's first rank",
        "residual": "ns by which the ends of matched collectives still differ (the median), -1 without any",
        "matched": "collectives that were found on other ranks, too",
        "trusted": "whether that is good enough to say who came late",
    }

    def covered(self, formats: frozenset[str]) -> bool:
        """Whether there are traces of two ranks; whether they belong together shows when they are compared."""
        ranks = {t.origin.rank for t in self.traces if t.events} - {None}
        return len(ranks) > 1

    def __len__(self) -> int:
        return sum(len(f.profiles) for f in self.fleets) if self.traces else 0

    def __iter__(self) -> Iterator[AlignedRank]:  # type: ignore[override]
        for job, fleet in enumerate(self.fleets if self.traces else ()):
            first = fleet.profiles[0].trace.meta.base
            for i, p in enumerate(fleet.profiles):
                offset = fleet.offset[i] + first - p.trace.meta.base
                matched = sum(len(m) for m in fleet.meetings if i in m.members)
                residual = -1 if fleet.residual is None else fleet.residual
                yield AlignedRank(job, int(p.origin.rank or 0), p.input, offset, residual, matched, fleet.trusted)

    def frame(self) -> pd.DataFrame:
        """The rows as a DataFrame with the documented columns."""
        import pandas as pd

        return pd.DataFrame([{c: getattr(r, c) for c in self.columns} for r in self], columns=list(self.columns))
