"""One search for all literals at once, over chunks of text.

Two libraries, for two sizes. `ahocorasick_rs` is ready in 10 ms (a DFA; its own choice for several hundred literals
is ready in one, and half as fast) and searches some 300 MB/s. `hyperscan`, where it is installed, needs 50 ms and
searches three to five times as fast: it takes over once an input turns out to be large. Both find the same matches.

A frame of a traceback behind a quotation mark is none: Inductor's log quotes stacks as lists of strings, several a line
and by the hundred thousand, and each match costs more than the search of a line.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

LARGE: Final = 4 << 20  # bytes of a run after which the slower start has paid for itself

FRAME: Final = b'  File "'
_QUOTES: Final = (b"'", b'"')
_UNQUOTED: Final = rb"""(?:^|[^'"])  File \""""

Matches = list[tuple[int, int]]  # (number of the literal, position of its first byte), in no particular order


class Search:
    """Where literals stand in chunks; overlapping matches included. Use `search_for`, which keeps it for all inputs."""

    def __init__(self, literals: tuple[bytes, ...]) -> None:
        from ahocorasick_rs import BytesAhoCorasick, Implementation

        self._frame = literals.index(FRAME) if FRAME in literals else -1
        self._automaton = BytesAhoCorasick(literals, implementation=Implementation.DFA)
        self._searched = 0

    def find(self, chunk: bytes) -> Matches:
        """All matches in `chunk`."""
        frame = self._frame
        return [
            (number, begin)
            for number, begin, _ in self._automaton.find_matches_as_indexes(chunk, overlapping=True)
            if number != frame or chunk[begin - 1 : begin] not in _QUOTES
        ]

    def is_large(self, chunk: bytes) -> bool:
        """Whether the run has become large with `chunk`, which is about to be searched."""
        self._searched += len(chunk)
        return self._searched > LARGE


@lru_cache(maxsize=4)
def search_for(literals: tuple[bytes, ...]) -> Search:
    """The search for these literals."""
    return Search(literals)


@lru_cache(maxsize=4)
def database_for(literals: tuple[bytes, ...], once: int = 0) -> Database | None:
    """The quicker search for these literals, where there is one; of the last `once` it tells the first match only."""
    try:
        import hyperscan
    except ImportError:  # no wheel for this platform
        return None
    try:
        return Database(hyperscan, literals, once)
    except hyperscan.error:  # a processor without the instructions that it needs
        return None


@lru_cache(maxsize=4)
def _frames(hyperscan: Any, number: int) -> Any:
    """Frames behind no quotation mark: a pattern among literals makes the start ten times as long."""
    frames = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    either = int(hyperscan.HS_FLAG_DOTALL | hyperscan.HS_FLAG_MULTILINE)
    frames.compile(expressions=[_UNQUOTED], ids=[number], elements=1, flags=[either])
    return frames


class Database:
    """hyperscan's search. It reports where a match ends; literals have one length each."""

    def __init__(self, hyperscan: Any, literals: tuple[bytes, ...], once: int = 0) -> None:
        self.lengths = [len(x) for x in literals]
        self._stopped = hyperscan.ScanTerminated
        count = len(literals)
        numbers = [n for n in range(count) if literals[n] != FRAME]
        flags = [int(hyperscan.HS_FLAG_SINGLEMATCH) if n >= count - once else 0 for n in numbers]
        plain = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        plain.compile(
            expressions=[literals[n] for n in numbers], ids=numbers, elements=len(numbers), flags=flags, literal=True
        )
        self._databases = [plain]
        if len(numbers) < count:
            self._databases.append(_frames(hyperscan, literals.index(FRAME)))

    def find(self, chunk: bytes) -> Matches:
        """All matches in `chunk`."""
        numbers, ends = self.ends(chunk)
        return [(number, end - self.lengths[number]) for number, end in zip(numbers, ends, strict=True)]

    def ends(self, chunk: bytes) -> tuple[list[int], list[int]]:
        """Numbers of the literals that match, and where each match ends."""
        numbers: list[int] = []
        ends: list[int] = []
        number_seen, end_seen = numbers.append, ends.append

        def seen(number: int, _begin: int, end: int, _flags: int, _context: object) -> None:
            number_seen(number)
            end_seen(end)

        for database in self._databases:
            database.scan(chunk, match_event_handler=seen)
        return numbers, ends

    def ends_unless(self, chunk: bytes, number: int, limit: int) -> tuple[list[int], list[int]] | None:
        """The same, or None if literal `number` matches `limit` times: the search ends there."""
        numbers: list[int] = []
        ends: list[int] = []
        number_seen, end_seen = numbers.append, ends.append
        left = limit

        def seen(found: int, _begin: int, end: int, _flags: int, _context: object) -> bool | None:
            nonlocal left
            number_seen(found)
            end_seen(end)
            if found == number:
                left -= 1
                return left <= 0
            return None

        try:
            for database in self._databases:
                database.scan(chunk, match_event_handler=seen)
        except self._stopped:
            return None
        return numbers, ends
