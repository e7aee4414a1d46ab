"""Tables whose rows are made when somebody asks for them: most runs never do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, ClassVar, Generic, TypeVar

from necropsy_parsers.records import Postponed

from necropsy.evidence import Table

R = TypeVar("R")


class LateTable(Table[R], Generic[R]):
    """Keeps what it is told; `read` makes at most `rows_max` rows of it, the first time that they are looked at.

    What the inputs postponed is read then, too.
    """

    rows_max: ClassVar[int]

    def __init__(self) -> None:
        self._told: list[Any] = []
        self._rows: list[R] | None = None

    def add(self, record: Any) -> None:
        """Keep what is told."""
        self._told.append(record)

    def read(self, told: list[Any]) -> Iterable[R]:
        """The rows of all that was told."""
        raise NotImplementedError

    @property
    def rows(self) -> list[R]:  # type: ignore[override]
        """The rows."""
        if self._rows is None:
            self._rows = []
            told, self._told = list(_all(self._told)), []
            self._rows += islice(self.read(told), self.rows_max)
        return self._rows


def _all(told: Iterable[Any]) -> Iterator[Any]:
    for record in told:
        if isinstance(record, Postponed):
            yield from record.read()
        else:
            yield record
