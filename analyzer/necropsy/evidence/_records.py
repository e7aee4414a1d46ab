"""Tables whose rows are records as read, with nothing added."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from necropsy_parsers.records import Record

from necropsy.evidence import Table

R = TypeVar("R", bound=Record)


class RecordTable(Table[R], Generic[R]):
    """A table of one record type; subclasses set `name`, `row`, `accepts`, `columns`."""

    def add(self, record: Any) -> None:
        """Take a record as a row."""
        self.rows.append(record)


COMMON = {
    "anchor": "where it stands: input, byte range, 1-based line, quoted text",
    "origin": "who wrote it, as far as prefixes tell: rank, host, pid, time",
    "seq": "order of reading",
    "attempt": "number of the attempt in the log, from 0",
}
