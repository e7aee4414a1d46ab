"""What torch's compiler assumed of sizes that change, and at which lines."""

from __future__ import annotations

from typing import Any, ClassVar

from necropsy_parsers.messages.symbolic_shape import SymbolicShape

from necropsy.evidence._records import COMMON, RecordTable

MAX_ROWS = 20_000  # a large model adds a guard an operator; beyond that they are only counted


class ShapeGuards(RecordTable[SymbolicShape]):
    """One row a symbol, guard or constant."""

    name = "shape_guards"
    row = SymbolicShape
    accepts = (SymbolicShape,)
    formats = ("log", "elastic_error_file", "torch_trace")
    supply = "the log of a run with TORCH_LOGS=dynamic"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "symbol, guard or constant",
        "symbol": "name of the symbol",
        "value": "value when it was created, or the only one left",
        "source": "what a symbol stands for: dimension of an input, an attribute",
        "expression": "what a guard asks, or why a symbol became a constant",
        "frame": "line of the program, path shortened as printed, or None",
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
