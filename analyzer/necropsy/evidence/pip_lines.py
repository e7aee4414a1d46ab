"""Lines of pip that name a Python."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from necropsy_parsers.messages.pip_line import PipLine

from necropsy.evidence._records import COMMON, RecordTable

ROWS_MAX: Final = 2_000  # images that install everything at start print hundreds


class PipLines(RecordTable[PipLine]):
    """One row a line of pip, or a prompt at which it was called."""

    name = "pip_lines"
    row = PipLine
    accepts = (PipLine,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "command, found or installed",
        "package": "the package",
        "folder": "where it was found; of a command the folder that the prompt shows",
        "wanted_by": "the package that asked for it",
        "command": "what was typed",
    }

    def add(self, record: Any) -> None:
        """Take a line while there is room."""
        if len(self.rows) < ROWS_MAX:
            self.rows.append(record)
