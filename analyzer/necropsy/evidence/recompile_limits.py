"""Functions that were compiled as often as is allowed and run eagerly since."""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec.structs import replace

from necropsy_parsers.messages.recompile_limit import RecompileLimit
from necropsy_parsers.records import Record

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON

ROWS_MAX: Final = 5_000
TORN: Final = 400  # bytes between the pieces of a warning whose first line is lost


class RecompileLimits(Table[RecompileLimit]):
    """One row a warning or exception; pieces of torn warnings are joined."""

    name = "recompile_limits"
    row = RecompileLimit
    accepts = (RecompileLimit,)
    formats = ("log", "elastic_error_file", "torch_trace")
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "form": "warning or exception",
        "option": "the limit's name as printed; changed between releases",
        "limit": "its value",
        "function": 'the function\'s name, "" where the warning was torn',
        "file": "its file",
        "line": "the line at which it begins",
        "compile_id": "id of the compilation that was refused",
        "reason": "the guard that failed last",
        "wording": '"2.1" if it is that of torch 2.1, otherwise ""',
    }

    def __init__(self) -> None:
        super().__init__()
        self.dropped = 0
        self._loose: list[RecompileLimit] = []

    def add(self, record: Record) -> None:
        """Take a row; a line that only names a function waits for the warning it was torn from."""
        assert isinstance(record, RecompileLimit)
        if record.form == "function":
            self._loose = [*self._loose[-15:], record]
        elif len(self.rows) >= ROWS_MAX:
            self.dropped += 1
        else:
            self.rows.append(self._joined(record))

    def _joined(self, record: RecompileLimit) -> RecompileLimit:
        """With the function that a piece just before it names."""
        if record.function or record.form != "warning":
            return record
        for loose in reversed(self._loose):
            near = 0 <= record.anchor.start - loose.anchor.end <= TORN
            if near and loose.anchor.input == record.anchor.input and loose.origin.rank in (None, record.origin.rank):
                self._loose.remove(loose)
                return replace(record, function=loose.function, file=loose.file, line=loose.line)
        return record
