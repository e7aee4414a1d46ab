"""The evidence tables -> one page: columns with their meaning and unit, and what fills them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from necropsy.evidence import Table
from necropsy.render.pages import MARK, cell, from_docstring

INTRODUCTION = (
    "What the inputs hold, as tables. Rules judge them; in a notebook, "
    '`necropsy.load("run/").<table>` gives one as a pandas DataFrame.'
)


def tables_page(tables: Iterable[type[Table[Any]]]) -> str:
    """All tables on one page."""
    return "\n\n".join([MARK, "# Tables", INTRODUCTION, *map(_table, tables)]) + "\n"


def _table(table: type[Table[Any]]) -> str:
    own = from_docstring(table.__doc__ or "") if table.__doc__ != Table.__doc__ else ""
    rows = "\n".join(f"| `{name}` | {cell(meaning)} |" for name, meaning in table.columns.items())
    fed = f"Filled from: {', '.join(f'`{name}`' for name in table.formats)}. To get it, supply {table.supply}."
    return "\n\n".join(
        part for part in (f"## {table.name}", own, f"| Column | Meaning |\n| --- | --- |\n{rows}", fed) if part
    )
