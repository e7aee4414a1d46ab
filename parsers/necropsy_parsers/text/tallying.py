"""Hands the chunks of one input to the tallies whose lines they hold."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Record
from necropsy_parsers.tallies import Tally, TallyKind, Whose, all_tallies, places
from necropsy_parsers.text.held import Held


class Tallies:
    """The tallies of the input `name`; each is made when its first line is seen.

    Where the literals of those that come `later` stand is kept in `awaited`, for `read_again`.
    """

    def __init__(
        self,
        name: str,
        first_seq: int,
        whose: Whose | None,
        issues: Issues,
        *,
        kinds: Iterable[TallyKind] = (),
        later: Iterable[TallyKind] = (),
    ) -> None:
        self._name = name
        self._seq = first_seq
        self._whose = whose
        self._issues = issues
        self._fed: dict[str, int] = {}  # bytes given to each
        self._running: dict[str, Tally] = {}
        self._later = tuple(later)
        self._kinds = tuple(kind for kind in kinds if kind not in self._later)
        self.awaited: dict[int, frozenset[bytes]] = {}  # offset of a chunk -> what it holds of later ones
        # What to look for in a chunk.
        self.literals = tuple(sorted({x for k in (*self._kinds, *self._later) for x in (*k.literals, *k.also)}))
        self.placed: frozenset[bytes] = frozenset()  # words whose places those that were made ask for

    def feed(self, chunk: bytes, start: int, lines: int, seen: Container[bytes]) -> None:
        """Count what stands in a chunk at byte `start` behind `lines` lines, which holds the literals in `seen`."""
        for kind in self._kinds:
            tally = self._running.get(kind.name)
            literals = kind.literals if tally is None else (*kind.literals, *kind.also)
            held = any(x in seen for x in literals)
            if (kind.every and tally is not None) or held:
                if tally is None:
                    asked = (self._whose,) if kind.asks else ()
                    tally = self._running[kind.name] = kind.make(self._name, self._seq, *asked)
                    self.placed |= frozenset(kind.placed)
                if self._has_room(kind, chunk if held else b""):
                    if kind.placed:
                        tally.found = seen.places if isinstance(seen, Held) else places
                    tally.feed(chunk, start, lines)
        if words := frozenset(x for kind in self._later for x in (*kind.literals, *kind.also) if x in seen):
            self.awaited[start] = words

    def _has_room(self, kind: TallyKind, chunk: bytes) -> bool:
        fed = self._fed.get(kind.name, 0)
        if kind.most and fed >= kind.most:
            self._issues.add("text/first-part", self._name, unit="chunks", detail=kind.title)
            return False
        self._fed[kind.name] = fed + len(chunk)
        return True

    def records(self) -> Iterator[Record]:
        """What was counted."""
        for tally in self._running.values():
            yield from tally.records()

    def explained(self) -> frozenset[int]:
        """Offsets of lines marked as errors that the records of tallies tell."""
        return frozenset(start for tally in self._running.values() for start in getattr(tally, "explained", ()))


def postponed() -> tuple[TallyKind, ...]:
    """Those that are read when their table is asked for."""
    return tuple(kind for kind in all_tallies() if kind.postponed)


def read_again(
    name: str, first_seq: int, issues: Issues, awaited: dict[int, frozenset[bytes]]
) -> Callable[[Iterable[bytes]], Iterator[Record]]:
    """What postponed tallies make of the same chunks again; only those `awaited` are looked at."""

    def read(chunks: Iterable[bytes]) -> Iterator[Record]:
        tallies = Tallies(name, first_seq, None, issues, kinds=postponed())
        start = lines = 0
        for chunk in chunks:
            tallies.feed(chunk, start, lines, awaited.get(start, ()))
            start, lines = start + len(chunk), lines + chunk.count(b"\n")
        yield from tallies.records()

    return read
