"""Tensors that enter compiled functions, and the lines that used them first."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from necropsy_parsers.tallies.input_guards import InputGuard

from necropsy.evidence._records import COMMON, RecordTable

MAX_ROWS: Final = 20_000  # one a tensor and compilation; beyond that they are only counted


class InputGuards(RecordTable[InputGuard]):
    """One row a tensor and compiled version."""

    name = "input_guards"
    row = InputGuard
    accepts = (InputGuard,)
    supply = "the log of a run with TORCH_LOGS=guards"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "source": "the tensor, as the guard names it",
        "frame": "line of the program that used it first, path shortened as printed",
    }

    def __init__(self) -> None:
        super().__init__()
        self.dropped = 0

    def add(self, record: Any) -> None:
        """Take a row, up to a bound."""
        if len(self.rows) < MAX_ROWS:
            super().add(record)
        else:
            self.dropped += 1
