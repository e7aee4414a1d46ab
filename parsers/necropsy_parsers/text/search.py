"""One search for all literals at once, over chunks of text.

Two libraries, for two sizes. `ahocorasick_rs` is ready in 10 ms (a DFA; its own choice for several hundred literals
is ready in one, and half as fast) and searches some 300 MB/s. `hyperscan`, where it is installed, needs 50 ms and
searches 550 to 600 MB/s: it takes over once an input turns out to be large. Both find the same matches.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

LARGE: Final = 12 << 20  # bytes of a run after which the slower start has paid for itself

Matches = list[tuple[int, int]]  # (number of the literal, position of its first byte), in no particular order


class Search:
    """Where literals stand in chunks; overlapping matches included. Use `search_for`, which keeps it for all inputs."""

    def __init__(self, literals: tuple[bytes, ...]) -> None:
        from ahocorasick_rs import BytesAhoCorasick, Implementation

        self._literals = literals
        self._automaton = BytesAhoCorasick(literals, implementation=Implementation.DFA)
        self._searched = 0

    def find(self, chunk: bytes) -> Matches:
        """All matches in `chunk`."""
        self._searched += len(chunk)
        if self._searched > LARGE and (database := _database(self._literals)) is not None:
            return database.find(chunk)
        return [
            (number, begin) for number, begin, _ in self._automaton.find_matches_as_indexes(chunk, overlapping=True)
        ]


@lru_cache(maxsize=4)
def search_for(literals: tuple[bytes, ...]) -> Search:
    """The search for these literals."""
    return Search(literals)


@lru_cache(maxsize=4)
def _database(literals: tuple[bytes, ...]) -> _Database | None:
    try:
        import hyperscan
    except ImportError:  # no wheel for this platform
        return None
    try:
        return _Database(hyperscan, literals)
    except hyperscan.error:  # a processor without the instructions that it needs
        return None


class _Database:
    """hyperscan reports where a match ends; literals have one length each."""

    def __init__(self, hyperscan: Any, literals: tuple[bytes, ...]) -> None:
        self._lengths = [len(x) for x in literals]
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=list(literals), ids=list(range(len(literals))), elements=len(literals), flags=0, literal=True
        )

    def find(self, chunk: bytes) -> Matches:
        found: Matches = []
        lengths = self._lengths

        def seen(number: int, _begin: int, end: int, _flags: int, _context: object) -> None:
            found.append((number, end - lengths[number]))

        self._database.scan(chunk, match_event_handler=seen)
        return found
