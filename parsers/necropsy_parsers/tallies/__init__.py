"""Tallies: what is said so often that it is counted over whole chunks of text, not read line by line.

A tally module offers `NAME`, `TITLE`, `LITERAL` (bytes that each of its lines holds; or
`LITERALS`, one of which it holds) and a class `Tally(name, first_seq)` with
`feed(chunk, start, line)`, called with each chunk that holds one of them, its byte offset
and the number of lines before it, and `records()`, called once at the end. Chunks that hold
one of `ALSO` are given to it once it has begun, of all of them at most `MAX_BYTES` (0: no
bound); with `EVERY = True` all chunks from then on. With `ASKS = True` a `Whose` is its
third argument. What only those ask for whose run names kernels is `POSTPONED`: where the
input can be read again, it is counted when its table is asked for. Of literals in `PLACED`
it asks `self.found(chunk, literal)` for the places, which the search for all literals tells
once it has begun: faster than a search for each of several that are rare. `explained`
(optional) are the offsets of lines marked as errors that its records tell: the others are
counted as read by nothing. Discovery walks this folder; adding a tally edits no list.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Final, Protocol

from msgspec import Struct

from necropsy_parsers.records import Origin, Record
from necropsy_parsers.torch_artifacts import Reads

# What is taken line by line costs ten times what the search for it does: of an input all that one compilation of a
# large model quotes, not what hundreds of them repeat.
MAX_BYTES: Final = 32 << 20

Found = Callable[[bytes, bytes], Iterable[int]]  # a chunk and a literal: where it stands, in order
Whose = Callable[[bytes, int], tuple[str, Origin, int]]  # a line and its offset: its text, its origin, its attempt


class Tally(Protocol):
    """Counts one kind of lines of one input."""

    found: Found

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Count what stands in `chunk`, which begins at byte `start` behind `line` lines."""

    def records(self) -> Iterator[Record]:
        """What was counted."""


class TallyKind(Struct, frozen=True):
    """A tally module, as found."""

    name: str
    title: str
    doc: str
    literals: tuple[bytes, ...]
    make: Callable[..., Tally]
    also: tuple[bytes, ...] = ()
    asks: bool = False
    most: int = 0
    postponed: bool = False
    every: bool = False
    reads: tuple[Reads, ...] = ()
    placed: tuple[bytes, ...] = ()


@cache
def all_tallies() -> tuple[TallyKind, ...]:
    """Every tally module, sorted by name."""
    found = []
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        m = importlib.import_module(info.name)
        literals = getattr(m, "LITERALS", ()) or (m.LITERAL,)
        also, asks, most = getattr(m, "ALSO", ()), getattr(m, "ASKS", False), getattr(m, "MAX_BYTES", MAX_BYTES)
        doc, reads, later = m.__doc__ or "", getattr(m, "READS", ()), getattr(m, "POSTPONED", False)
        every, placed = getattr(m, "EVERY", False), getattr(m, "PLACED", ())
        found.append(TallyKind(m.NAME, m.TITLE, doc, literals, m.Tally, also, asks, most, later, every, reads, placed))
    return tuple(found)


def places(chunk: bytes, literal: bytes) -> Iterator[int]:
    """Where `literal` stands: three times as fast as a pattern that begins with it."""
    position = chunk.find(literal)
    while position >= 0:
        yield position
        position = chunk.find(literal, position + len(literal))
