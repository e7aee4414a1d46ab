"""Losses and gradient norms over the run."""

from __future__ import annotations

from typing import ClassVar, Final

from necropsy_parsers.messages.training_value import TrainingValue
from necropsy_parsers.records import input_number

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON
from necropsy.evidence.activity import writer_of

KEPT: Final = 128  # rows of one series; of more, every second finite one goes


class TrainingValues(Table[TrainingValue]):
    """One row a reported value, of long series a sample. Covered only if there are any: silence says nothing."""

    name = "training_values"
    row = TrainingValue
    accepts = (TrainingValue,)
    supply = "a log that prints the loss (value and step)"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "name": "as printed: loss, train/loss, grad_norm, ...",
        "value": "the value, NaN and infinities included",
        "step": "step, iteration or epoch, or None",
        "unit": "which of them",
        "text": "the line",
    }

    def __init__(self) -> None:
        super().__init__()
        self._series: dict[tuple[int, int, str, str], list[TrainingValue]] = {}

    def add(self, record: TrainingValue) -> None:  # type: ignore[override]
        """Take a value."""
        key = (input_number(record.seq), record.attempt, writer_of(record.origin), record.name)
        rows = self._series.setdefault(key, [])
        rows.append(record)
        if len(rows) >= KEPT:
            rows[:] = thinned(rows)

    def finish(self) -> None:
        """Put the rows in order of reading."""
        self.rows = sorted((r for rows in self._series.values() for r in rows), key=lambda r: r.seq)

    def covered(self, formats: frozenset[str]) -> bool:
        """Whether any value was read."""
        return super().covered(formats) and bool(self.rows)


def thinned(rows: list[TrainingValue]) -> list[TrainingValue]:
    """About half of a series, with the ends and both sides of each change between finite and not."""
    last = len(rows) - 1
    kept = []
    for i, row in enumerate(rows):
        turns = i in (0, last) or rows[i - 1].finite != row.finite or rows[i + 1].finite != row.finite
        if turns or i % 2 == 0:
            kept.append(row)
    return kept
