"""Tallies: what is said so often that it is counted over whole chunks of text, not read line by line.

A tally module offers `NAME`, `TITLE`, `LITERAL` (bytes that each of its lines holds) and a
class `Tally(name, first_seq)` with `feed(chunk, start, line)`, called with each chunk that
holds the literal, its byte offset and the number of lines before it, and `records()`,
called once at the end. Discovery walks this folder; adding a tally edits no list.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from typing import Protocol

from msgspec import Struct

from necropsy_parsers.records import Record
from necropsy_parsers.torch_artifacts import Reads


class Tally(Protocol):
    """Counts one kind of lines of one input."""

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Count what stands in `chunk`, which begins at byte `start` behind `line` lines."""

    def records(self) -> Iterator[Record]:
        """What was counted."""


class TallyKind(Struct, frozen=True):
    """A tally module, as found."""

    name: str
    title: str
    doc: str
    literal: bytes
    make: Callable[[str, int], Tally]
    reads: tuple[Reads, ...] = ()


@cache
def all_tallies() -> tuple[TallyKind, ...]:
    """Every tally module, sorted by name."""
    found = []
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        m = importlib.import_module(info.name)
        found.append(TallyKind(m.NAME, m.TITLE, m.__doc__ or "", m.LITERAL, m.Tally, getattr(m, "READS", ())))
    return tuple(found)
