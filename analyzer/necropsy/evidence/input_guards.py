"""Tensors that enter compiled functions, and the lines that used them first."""

from __future__ import annotations

from typing import Any, ClassVar

from necropsy_parsers.tallies.input_guards import GuardLists, InputGuard

from necropsy.evidence._late import LateTable
from necropsy.evidence._records import COMMON


class InputGuards(LateTable[InputGuard]):
    """One row a tensor and compiled version."""

    name = "input_guards"
    row = InputGuard
    accepts = (InputGuard, GuardLists)
    rows_max = 20_000
    supply = "the log of a run with TORCH_LOGS=guards"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "source": "the tensor, as the guard names it",
        "frame": "line of the program that used it first, path shortened as printed",
    }

    def read(self, told: list[Any]) -> list[InputGuard]:
        """What was told."""
        return told
