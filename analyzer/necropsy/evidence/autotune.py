"""Autotuning: what was timed, what won, what did not run."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.messages.autotune import AutotuneReject, AutotuneTable, AutotuneTime
from necropsy_parsers.records import Anchor, Origin, Record

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON

KEPT: Final = 20_000  # tables and rejected configurations kept one by one; more are only counted


class AutotuneRow(Struct, frozen=True):
    """One table of timings; `rejected` counts the configurations dropped since the table before it."""

    anchor: Anchor
    origin: Origin
    seq: int
    attempt: int
    op: str
    shapes: tuple[str, ...]
    winner: str
    ms: float | None
    outside: str
    outside_ms: float | None
    choices: int | None
    rejected: int
    seconds: float | None
    precompiling: float | None


class Autotune(Table[AutotuneRow]):
    """One row a table of timings. `rejects` holds the configurations that did not run, `uncounted` how many more."""

    name = "autotune"
    row = AutotuneRow
    accepts = (AutotuneTable, AutotuneTime, AutotuneReject)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "op": "operation: mm, addmm, bmm, convolution, ...",
        "shapes": "sizes of its inputs, as printed",
        "winner": "the fastest choice",
        "ms": "its time in milliseconds",
        "outside": "the fastest choice that no template made (cuBLAS, cuDNN, ATen), among those printed",
        "outside_ms": "its time in milliseconds",
        "choices": "choices compared, where told (since torch 2.6)",
        "rejected": "configurations that did not run, printed since the table before",
        "seconds": "seconds of benchmarking",
        "precompiling": "seconds of compiling the choices",
    }

    def __init__(self) -> None:
        super().__init__()
        self.rejects: list[AutotuneReject] = []
        self.uncounted = 0
        self._told: list[AutotuneTable | AutotuneTime] = []

    def add(self, record: Record) -> None:
        """Take a table, its cost, or a rejected configuration."""
        kept: list[Any] = self.rejects if isinstance(record, AutotuneReject) else self._told
        if len(kept) < KEPT:
            kept.append(record)
        else:
            self.uncounted += 1

    def finish(self) -> None:
        """Join tables with their cost and with what was dropped before them; entries of a log end out of order."""
        self.rejects.sort(key=lambda r: r.seq)
        waiting: dict[tuple[str, int | None], int] = {}  # dropped configurations by input and rank
        last: dict[tuple[str, int | None], int] = {}  # the last row of each writer, until its time is told
        for record in sorted([*self._told, *self.rejects], key=lambda r: r.seq):
            writer = (record.anchor.input, record.origin.rank)
            if isinstance(record, AutotuneReject):
                waiting[writer] = waiting.get(writer, 0) + (record.kind != "none")
            elif isinstance(record, AutotuneTable):
                last[writer] = len(self.rows)
                takes = [w for w in waiting if w == writer or (writer[1] is None and w[0] == writer[0])]
                self.rows.append(_row(record, sum(waiting.pop(w) for w in takes)))
            elif (at := last.pop(writer, None)) is not None:
                self.rows[at] = replace(
                    self.rows[at], seconds=record.seconds, precompiling=record.precompiling, choices=record.choices
                )
        self._told.clear()


def _row(table: AutotuneTable, rejected: int) -> AutotuneRow:
    """A table as a row; its choices are counted where their number is told."""
    ran = sorted(((ms, name) for name, ms in table.rows if math.isfinite(ms)), key=lambda r: r[0])
    outside = next(((ms, name) for ms, name in ran if name in table.outside), None)
    return AutotuneRow(
        anchor=table.anchor,
        origin=table.origin,
        seq=table.seq,
        attempt=table.attempt,
        op=table.op,
        shapes=table.shapes,
        winner=ran[0][1] if ran else "",
        ms=ran[0][0] if ran else None,
        outside=outside[1] if outside else "",
        outside_ms=outside[0] if outside else None,
        choices=None,
        rejected=rejected,
        seconds=None,
        precompiling=None,
    )
