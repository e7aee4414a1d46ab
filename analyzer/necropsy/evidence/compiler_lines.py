"""Lines with which a C or C++ compiler gave up."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from necropsy_parsers.messages.compiler_line import CompilerLine

from necropsy.evidence._records import COMMON, RecordTable

ROWS_MAX: Final = 500


class CompilerLines(RecordTable[CompilerLine]):
    """One row a line."""

    name = "compiler_lines"
    row = CompilerLine
    accepts = (CompilerLine,)
    columns: ClassVar[dict[str, str]] = {**COMMON, "text": "the line as printed"}

    def add(self, record: Any) -> None:
        """Take a line while there is room."""
        if len(self.rows) < ROWS_MAX:
            self.rows.append(record)
