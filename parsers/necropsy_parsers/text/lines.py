"""Line numbers in chunks of text: several readers ask for them in the same chunk, which is counted once for all.

Counting line feeds costs as much as the search for all literals; from a sum each 8 KB on the rest takes microseconds.
"""

from __future__ import annotations

from typing import Final

_BLOCK: Final = 8 * 1024


class _Sums:
    """Line feeds before each block of a chunk, as far as they were asked for."""

    def __init__(self) -> None:
        self.begin(b"")

    def begin(self, chunk: bytes) -> None:
        """Another chunk."""
        self.chunk = chunk
        self.sums = [0]
        self.last = (0, 0)  # the position asked for last, and its answer: most ask in order

    def before(self, position: int) -> int:
        """Line feeds before a position."""
        asked, told = self.last
        if asked <= position < asked + _BLOCK:
            told += self.chunk.count(b"\n", asked, position)
        else:
            told = self._summed(position)
        self.last = (position, told)
        return told

    def _summed(self, position: int) -> int:
        block, sums, chunk = position // _BLOCK, self.sums, self.chunk
        for known in range(len(sums) - 1, block):
            sums.append(sums[-1] + chunk.count(b"\n", known * _BLOCK, (known + 1) * _BLOCK))
        return sums[block] + chunk.count(b"\n", block * _BLOCK, position)


_LAST: Final = _Sums()  # a chunk is read by one reader after another


def lines_before(chunk: bytes, position: int) -> int:
    """Line feeds in a chunk before a position."""
    if _LAST.chunk is not chunk:
        _LAST.begin(chunk)
    return _LAST.before(position)
