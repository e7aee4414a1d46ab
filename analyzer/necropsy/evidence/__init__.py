"""Evidence: what the inputs hold, as tables with documented columns.

One table per file. A table lists the record types that it accepts and the formats
that feed it; a rule receives the table, people receive its `frame()` (a pandas
DataFrame). Rows of small tables are plain structs so that a cold `analyze` never
imports pandas (0.3 s); `frame()` imports it on request. See
docs/decisions/0002-tables-hold-rows.md.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from msgspec.structs import fields

from necropsy_parsers.records import Record

if TYPE_CHECKING:
    import pandas as pd

R = TypeVar("R")
T = TypeVar("T", bound="Table[Any]")


class Table(Generic[R]):
    """Base of all tables.

    `name` is the attribute under which `necropsy.load()` shows it, `row` the struct
    of its rows, `columns` their meaning and unit, `accepts` the record types it takes,
    `formats` the formats that can feed it, `supply` what to collect when nothing did.
    """

    name: ClassVar[str]
    row: ClassVar[type[Any]]
    columns: ClassVar[dict[str, str]]
    accepts: ClassVar[tuple[type[Record], ...]] = ()
    # A run folder of `necropsy capture` holds all that the job printed, which may be nothing.
    formats: ClassVar[tuple[str, ...]] = ("log", "elastic_error_file", "capture_run")
    supply: ClassVar[str] = "the job's log (stdout and stderr)"

    def __init__(self) -> None:
        self.rows: list[R] = []

    def add(self, record: Record) -> None:
        """Take one record of an accepted type."""
        raise NotImplementedError

    def finish(self) -> None:
        """Called once after the last record of the run."""

    def covered(self, formats: frozenset[str]) -> bool:
        """Whether the inputs read (their format names) can have filled this table."""
        return bool(formats & set(self.formats))

    def beside(self, formats: frozenset[str]) -> bool:
        """Whether it may be empty next to an input that tells the rest.

        A structured log (TORCH_TRACE) tells most of what the compiler prints; what rules ask of text logs besides is
        context.
        """
        return "torch_trace" in formats and "log" in self.formats

    def __iter__(self) -> Iterator[R]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def frame(self) -> pd.DataFrame:
        """The rows as a DataFrame with the documented columns."""
        import pandas as pd

        names = [f.name for f in fields(self.row)]
        return pd.DataFrame({n: [getattr(r, n) for r in self.rows] for n in names}, columns=names)


@cache
def all_tables() -> tuple[type[Table[Any]], ...]:
    """Every table class in `necropsy.evidence`, sorted by name."""
    found: set[type[Table[Any]]] = set()
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, type) and issubclass(value, Table) and "name" in vars(value):
                found.add(value)
    return tuple(sorted(found, key=lambda t: t.name))


class Evidence:
    """All tables of a run. `evidence.get(Exceptions)` in rules, `evidence.exceptions` in notebooks."""

    def __init__(self, formats: Iterable[str] = ()) -> None:
        self.formats = frozenset(formats)
        self._tables: dict[type[Table[Any]], Table[Any]] = {t: t() for t in all_tables()}
        self._takers: dict[type[Record], list[Table[Any]]] = {}
        for table in self._tables.values():
            for accepted in table.accepts:
                self._takers.setdefault(accepted, []).append(table)
        from necropsy.evidence._twice import Twice

        self._twice = Twice()

    def add(self, record: Record) -> None:
        """Hand a record to each table that accepts its type."""
        if self._twice.again(record):
            return
        for table in self._takers.get(type(record), ()):
            table.add(record)

    def finish(self, formats: Iterable[str]) -> None:
        """Close all tables; `formats` are the names of the formats that were read."""
        self.formats = frozenset(formats)
        for table in self._tables.values():
            table.finish()

    def get(self, table: type[T]) -> T:
        """The table of that class."""
        return self._tables[table]  # type: ignore[return-value]

    def covers(self, table: type[Table[Any]]) -> bool:
        """Whether any input could fill this table."""
        return self._tables[table].covered(self.formats)

    def beside(self, table: type[Table[Any]]) -> bool:
        """Whether the table may be empty next to the inputs read."""
        return self._tables[table].beside(self.formats)

    def tables(self) -> Iterator[Table[Any]]:
        """All tables, sorted by name."""
        return iter(self._tables.values())

    def __getattr__(self, name: str) -> pd.DataFrame:
        for table in self.__dict__.get("_tables", {}).values():
            if table.name == name:
                frame: pd.DataFrame = table.frame()
                return frame
        raise AttributeError(f"no table named {name!r}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(t.name for t in self._tables.values())]
