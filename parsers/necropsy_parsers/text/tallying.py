"""Hands the chunks of one input to the tallies whose lines they hold."""

from __future__ import annotations

from collections.abc import Container, Iterator

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Record
from necropsy_parsers.tallies import Tally, Whose, all_tallies


class Tallies:
    """The tallies of the input `name`; each is made when its first line is seen."""

    def __init__(self, name: str, first_seq: int, whose: Whose, issues: Issues) -> None:
        self._name = name
        self._seq = first_seq
        self._whose = whose
        self._issues = issues
        self._fed: dict[str, int] = {}  # bytes given to each
        self._running: dict[str, Tally] = {}
        # What to look for in a chunk.
        self.literals = tuple(sorted({x for kind in all_tallies() for x in (*kind.literals, *kind.also)}))

    def feed(self, chunk: bytes, start: int, lines: int, seen: Container[bytes]) -> None:
        """Count what stands in a chunk at byte `start` behind `lines` lines, which holds the literals in `seen`."""
        for kind in all_tallies():
            tally = self._running.get(kind.name)
            if any(x in seen for x in (kind.literals if tally is None else (*kind.literals, *kind.also))):
                if tally is None:
                    asked = (self._whose,) if kind.asks else ()
                    tally = self._running[kind.name] = kind.make(self._name, self._seq, *asked)
                fed = self._fed.get(kind.name, 0)
                if kind.most and fed >= kind.most:
                    self._issues.add("text/first-part", self._name, unit="chunks", detail=kind.title)
                    continue
                self._fed[kind.name] = fed + len(chunk)
                tally.feed(chunk, start, lines)

    def records(self) -> Iterator[Record]:
        """What was counted."""
        for tally in self._running.values():
            yield from tally.records()
