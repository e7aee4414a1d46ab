"""Losses and gradient norms over the run."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.training_value import TrainingValue

from necropsy.evidence._records import COMMON, RecordTable


class TrainingValues(RecordTable[TrainingValue]):
    """One row a reported value. Covered only if the log reports any: silence says nothing."""

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

    def covered(self, formats: frozenset[str]) -> bool:
        """Whether any value was read."""
        return super().covered(formats) and bool(self.rows)
