"""Inductor's hints on performance, counted by kind."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.messages.inductor_hint import InductorHint
from necropsy_parsers.records import Anchor, Origin, Record

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON


class HintRow(Struct, frozen=True):
    """One kind of hint in an attempt: the first one's place and text, how often, on which ranks."""

    anchor: Anchor
    origin: Origin
    seq: int
    attempt: int
    kind: str
    text: str
    count: int
    ranks: tuple[int, ...]


class PerfHints(Table[HintRow]):
    """One row a kind and attempt."""

    name = "perf_hints"
    row = HintRow
    accepts = (InductorHint,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "tiling, strided reduction, tiles, padding, tf32, flash, sms, softmax, complex or gemm",
        "text": "the first one's text",
        "count": "how often it is given",
        "ranks": "ranks that give it",
    }

    def __init__(self) -> None:
        super().__init__()
        self._at: dict[tuple[int, str], int] = {}

    def add(self, record: Record) -> None:
        """Count a hint."""
        assert isinstance(record, InductorHint)
        rank = record.origin.rank
        at = self._at.get((record.attempt, record.kind))
        if at is None:
            self._at[record.attempt, record.kind] = len(self.rows)
            self.rows.append(
                HintRow(
                    record.anchor, record.origin, record.seq, record.attempt, record.kind, record.text, 1,
                    () if rank is None else (rank,),
                )
            )  # fmt: skip
            return
        row = self.rows[at]
        ranks = row.ranks if rank is None or rank in row.ranks else tuple(sorted((*row.ranks, rank)))
        self.rows[at] = replace(row, count=row.count + 1, ranks=ranks)
