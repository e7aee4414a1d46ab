"""Objects outside that compiled functions change, and the lines that do."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from necropsy_parsers.messages.side_effect import SideEffect

from necropsy.evidence._records import COMMON, RecordTable

MAX_ROWS: Final = 20_000


class SideEffects(RecordTable[SideEffect]):
    """One row an object and compilation."""

    name = "side_effects"
    row = SideEffect
    accepts = (SideEffect,)
    supply = "the log of a run with TORCH_LOGS=side_effects (torch 2.11 and later)"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "type": "of the object",
        "source": "the object, as guards name it, empty where it has no name",
        "stacks": "stacks of the lines that change it, outermost frame first",
    }

    def add(self, record: Any) -> None:
        """Take a row, up to a bound."""
        if len(self.rows) < MAX_ROWS:
            super().add(record)
