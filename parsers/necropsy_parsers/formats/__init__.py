"""Formats of whole inputs, one per file.

A format module offers `NAME`, `TITLE`, `PRIORITY` (unique; the lower is asked first),
`sniff(head, name) -> str | None` (the reason why it claims an input, or None),
`SAMPLES`, and `parse(source, issues, seq) -> Iterator[Record]`. Discovery walks this
folder; adding a format edits no list.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Record

if TYPE_CHECKING:
    from necropsy_parsers.source import Source


class Format(Struct, frozen=True):
    """A format module, as found."""

    name: str
    title: str
    doc: str
    priority: int
    samples: tuple[str, ...]
    sniff: Callable[[bytes, str], str | None]
    parse: Callable[[Source, Issues, int], Iterator[Record]]


@cache
def all_formats() -> tuple[Format, ...]:
    """Every format in the order in which it is asked."""
    found = []
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        m = importlib.import_module(info.name)
        found.append(Format(m.NAME, m.TITLE, m.__doc__ or "", m.PRIORITY, tuple(m.SAMPLES), m.sniff, m.parse))
    return tuple(sorted(found, key=lambda f: f.priority))
