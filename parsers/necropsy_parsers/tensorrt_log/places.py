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
    """Lines that do not stand together in the input: `begins` in the chunk, `offsets` in the input, and `numbers`."""

    def __init__(self, begins: list[int], offsets: list[int], numbers: list[int]) -> None:
        self._begins, self._offsets, self._numbers = begins, offsets, numbers

    @property
    def lines(self) -> int:
        """Lines of the input up to the end of the chunk's last line."""
        return self._numbers[-1] if self._numbers else 0

    def offset(self, position: int) -> int:
        """The byte offset in the input of a position in the chunk."""
        line = bisect_right(self._begins, position) - 1
        return self._offsets[line] + position - self._begins[line]

    def number(self, position: int) -> int:
        """The 1-based number of the line that begins at `position`."""
        return self._numbers[bisect_right(self._begins, position) - 1]

    def line(self, index: int) -> int:
        """The 1-based number of the line with `index` line feeds of the chunk before it."""
        return self._numbers[index]
