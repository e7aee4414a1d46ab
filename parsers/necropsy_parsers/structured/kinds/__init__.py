"""Kinds of entries, one subject per file.

A module offers `KINDS` (what it reads: an entry's own key, or `artifact:` and the artifact's name) and `make()`, which
gives a `Reader` for one input. What only those ask for whose run names kernels is `POSTPONED`: where the input can be
read again, it is passed over until its table is asked for. Discovery walks this folder; adding a kind edits no list.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

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


class Module(Struct, frozen=True):
    """A module of this folder, as found."""

    kinds: tuple[str, ...]
    make: Callable[[], Reader]
    postponed: bool


@cache
def all_modules() -> tuple[Module, ...]:
    """Every module here."""
    found = []
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        m = importlib.import_module(info.name)
        found.append(Module(tuple(m.KINDS), m.make, getattr(m, "POSTPONED", False)))
    return tuple(found)


def readers(modules: Iterable[Module]) -> dict[str, Reader]:
    """Kind -> its reader; kinds of one module share one."""
    found: dict[str, Reader] = {}
    for module in modules:
        found |= dict.fromkeys(module.kinds, module.make())
    return found
