"""The first clock reading of each input: whether two inputs' clocks can be compared at all."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from necropsy_parsers.messages.training_value import TrainingValue
from necropsy_parsers.records import Anchor, Record, Stamp
from necropsy_parsers.text.plain import TextRun
from necropsy_parsers.text.traceback import PythonTraceback

from necropsy.evidence import Table


class ClockRow(Struct, frozen=True):
    """The first reading in an input."""

    anchor: Anchor
    seq: int
    attempt: int
    time: Stamp


class Clocks(Table[ClockRow]):
    """One row an input and attempt with a clock."""

    name = "clocks"
    row = ClockRow
    accepts = (TextRun, TrainingValue, PythonTraceback)
    columns: ClassVar[dict[str, str]] = {
        "anchor": "where the reading stands",
        "seq": "order of reading",
        "attempt": "number of the attempt in the log, from 0",
        "time": "the reading as printed, in seconds comparable within its kind",
    }

    def __init__(self) -> None:
        super().__init__()
        self._first: dict[tuple[str, int], ClockRow] = {}

    def add(self, record: Record) -> None:
        """Take a record with a clock; the first of an input in order of text counts."""
        time = record.origin.time
        key = (record.anchor.input, record.attempt)
        if time is not None and (key not in self._first or record.seq < self._first[key].seq):
            self._first[key] = ClockRow(record.anchor, record.seq, record.attempt, time)

    def finish(self) -> None:
        """Put the rows in order of reading."""
        self.rows = sorted(self._first.values(), key=lambda r: r.seq)

    def starts(self) -> dict[tuple[str, int], Stamp]:
        """The first readings by (input, attempt)."""
        return {(r.anchor.input, r.attempt): r.time for r in self.rows}
