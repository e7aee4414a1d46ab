"""A format -> its page: what it reads, with the sample lines that it declares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from necropsy_parsers.formats import Format

from necropsy.evidence import Table
from necropsy.render.markdown import fence
from necropsy.render.pages import MARK, from_docstring


def format_page(format: Format, tables: Iterable[type[Table[Any]]]) -> str:
    """Heading, docstring, sample lines, and the tables that the format can fill."""
    parts = [MARK, f"# {format.title}", f"Name: `{format.name}`", from_docstring(format.doc)]
    if format.samples:
        parts += ["## Samples", fence([line for sample in format.samples for line in sample.splitlines()])]
    filled = [f"[`{t.name}`](../tables.md#{t.name})" for t in tables if format.name in t.formats]
    parts += ["## Fills the tables", ", ".join(filled)] if filled else []
    return "\n\n".join(parts) + "\n"
