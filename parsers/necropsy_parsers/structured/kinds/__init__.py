"""Kinds of entries, one subject per file.

A module offers `KINDS` (what it reads: an entry's own key, or `artifact:` and the artifact's name) and `make()`, which
gives a `Reader` for one input. Discovery walks this folder; adding a kind edits no list.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Protocol

from necropsy_parsers.records import Record

if TYPE_CHECKING:
    from necropsy_parsers.structured.entry import Entry


class Reader(Protocol):
    """Reads the entries of its kinds, in order, of one input."""

    def read(self, entry: Entry) -> Iterator[Record]:
        """The records of an entry."""

    def finish(self) -> Iterator[Record]:
        """What was held back when the input ended."""


class Plain:
    """A reader that keeps nothing from one entry to the next."""

    def __init__(self, read: Callable[[Entry], Iterator[Record]]) -> None:
        self._read = read

    def read(self, entry: Entry) -> Iterator[Record]:
        """The records of an entry."""
        return self._read(entry)

    def finish(self) -> Iterator[Record]:
        """Nothing."""
        return iter(())


@cache
def _modules() -> tuple[tuple[tuple[str, ...], Callable[[], Reader]], ...]:
    found = []
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        module = importlib.import_module(info.name)
        found.append((tuple(module.KINDS), module.make))
    return tuple(found)


def all_kinds() -> dict[str, Callable[[], Reader]]:
    """Kind -> how to get its reader; kinds of one module share one reader."""
    found: dict[str, Callable[[], Reader]] = {}
    for kinds, make in _modules():
        shared: Callable[[], Reader] = cache(make)
        found |= dict.fromkeys(kinds, shared)
    return found
