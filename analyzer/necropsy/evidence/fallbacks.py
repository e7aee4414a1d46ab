"""Operators that Inductor leaves to eager kernels."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.messages.inductor_hint import InductorFallback
from necropsy_parsers.records import Anchor, Origin, Record

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON


class FallbackRow(Struct, frozen=True):
    """One operator of an attempt: `vias` counts how it fell back, `ranks` and `compile_ids` who compiled it."""

    anchor: Anchor
    origin: Origin
    seq: int
    attempt: int
    op: str
    vias: tuple[tuple[str, int], ...]
    count: int
    ranks: tuple[int, ...]
    compile_ids: tuple[str, ...]

    @property
    def implicit(self) -> bool:
        """Whether Inductor had neither a lowering nor a registered fallback for it."""
        return any(via in ("implicit", "missing") for via, _ in self.vias)


class Fallbacks(Table[FallbackRow]):
    """One row an operator and attempt: the log names it once a graph and rank."""

    name = "fallbacks"
    row = FallbackRow
    accepts = (InductorFallback,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "op": "operator without torch.ops and .default; empty where the log is cut",
        "vias": "(kernel, implicit, shim or missing; how often)",
        "count": "how many graphs name it (an implicit fallback is told twice: as such and as a kernel)",
        "ranks": "ranks that name it",
        "compile_ids": "compilations that name it",
    }

    def __init__(self) -> None:
        super().__init__()
        self._at: dict[tuple[int, str], int] = {}

    def add(self, record: Record) -> None:
        """Count an operator."""
        assert isinstance(record, InductorFallback)
        key = (record.attempt, record.op)
        at = self._at.get(key)
        if at is None:
            at = self._at[key] = len(self.rows)
            self.rows.append(
                FallbackRow(record.anchor, record.origin, record.seq, record.attempt, record.op, (), 0, (), ())
            )
        row = self.rows[at]
        vias = dict(row.vias)
        vias[record.via] = vias.get(record.via, 0) + 1
        rank, cid = record.origin.rank, record.origin.compile_id
        self.rows[at] = replace(
            row,
            vias=tuple(vias.items()),
            count=max(vias.values()),
            ranks=row.ranks if rank is None or rank in row.ranks else tuple(sorted((*row.ranks, rank))),
            compile_ids=row.compile_ids
            if not cid or cid in row.compile_ids or len(row.compile_ids) >= 50
            else (*row.compile_ids, cid),
        )
