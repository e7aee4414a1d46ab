"""Hands the chunks of one input to the tallies whose lines they hold."""

from __future__ import annotations

from collections.abc import Container, Iterator

from necropsy_parsers.records import Record
from necropsy_parsers.tallies import Tally, all_tallies


class Tallies:
    """The tallies of the input `name`; each is made when its first line is seen."""

    def __init__(self, name: str, first_seq: int) -> None:
        self._name = name
        self._seq = first_seq
        self._running: dict[str, Tally] = {}
        self.literals = tuple(sorted({kind.literal for kind in all_tallies()}))  # what to look for in a chunk

    def feed(self, chunk: bytes, start: int, lines: int, seen: Container[bytes]) -> None:
        """Count what stands in a chunk at byte `start` behind `lines` lines, which holds the literals in `seen`."""
        for kind in all_tallies():
            if kind.literal in seen:
                if kind.name not in self._running:
                    self._running[kind.name] = kind.make(self._name, self._seq)
                self._running[kind.name].feed(chunk, start, lines)

    def records(self) -> Iterator[Record]:
        """What was counted."""
        for tally in self._running.values():
            yield from tally.records()
