"""Where a piece of a log that is read in chunks stands in its input."""

from __future__ import annotations

from bisect import bisect_right
from typing import Protocol

from necropsy_parsers.text.lines import lines_before


class Places(Protocol):
    """Places in one chunk, which holds whole lines."""

    @property
    def lines(self) -> int:
        """Lines of the input up to the end of the chunk."""

    def offset(self, position: int) -> int:
        """The byte offset in the input of a position in the chunk."""

    def number(self, position: int) -> int:
        """The 1-based number of the line that begins at `position`."""

    def line(self, index: int) -> int:
        """The 1-based number of the line with `index` line feeds of the chunk before it."""


class Stretch:
    """A chunk that stands in the input as it is: at byte `start`, behind `before` lines."""

    def __init__(self, chunk: bytes, start: int, before: int) -> None:
        self._chunk, self._start, self._before = chunk, start, before
        self._at, self._line = 0, before

    @property
    def lines(self) -> int:
        """Lines of the input up to the end of the chunk."""
        return self._before + lines_before(self._chunk, len(self._chunk))

    def offset(self, position: int) -> int:
        """The byte offset in the input of a position in the chunk."""
        return self._start + position

    def number(self, position: int) -> int:
        """The number of a line; counted on from the one asked for before, so one reader asks in order."""
        if position < self._at:
            self._at, self._line = 0, self._before
        self._line += self._chunk.count(b"\n", self._at, position)
        self._at = position
        return self._line + 1

    def line(self, index: int) -> int:
        """The 1-based number of the line with `index` line feeds of the chunk before it."""
        return self._before + index + 1


class Gathered:
    """Runs of lines that do not stand together in the input.

    Of each run: where it begins in the chunk, its offset in the input, the number of its first line, and how many line
    feeds of the chunk are before it.
    """

    def __init__(
        self, chunk: bytes, begins: list[int], offsets: list[int], numbers: list[int], feeds: list[int]
    ) -> None:
        self._chunk, self._begins, self._offsets, self._numbers, self._feeds = chunk, begins, offsets, numbers, feeds
        self._run, self._at, self._line = -1, 0, 0  # the place asked for last

    @property
    def lines(self) -> int:
        """Lines of the input up to the end of the chunk's last line."""
        if not self._numbers:
            return 0
        return self._numbers[-1] + self._chunk.count(b"\n", self._begins[-1]) - 1

    def offset(self, position: int) -> int:
        """The byte offset in the input of a position in the chunk."""
        run = bisect_right(self._begins, position) - 1
        return self._offsets[run] + position - self._begins[run]

    def number(self, position: int) -> int:
        """The 1-based number of the line that begins at `position`; counted on from the one asked for before."""
        run = bisect_right(self._begins, position) - 1
        if run != self._run or position < self._at:
            self._run, self._at, self._line = run, self._begins[run], self._numbers[run]
        self._line += self._chunk.count(b"\n", self._at, position)
        self._at = position
        return self._line

    def line(self, index: int) -> int:
        """The 1-based number of the line with `index` line feeds of the chunk before it."""
        run = bisect_right(self._feeds, index) - 1
        return self._numbers[run] + index - self._feeds[run]
