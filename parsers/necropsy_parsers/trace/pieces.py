"""A stream of bytes cut at event boundaries.

A cut is a guess (`}, {"ph"` may stand in a string), proved by decoding: a piece that
begins between two events decodes only if it ends between two. What stands before the
events and behind them is kept for the metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

# The keys with which writers begin an event.
BOUNDARY: Final = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|args|pid|tid|ts|id|dur|s|bp)")')
_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE: Final = re.compile(rb"\s*\[\s*(?=[{\]])")

PIECE: Final = 1 << 20  # pieces of 1 to 2 MB stay in the processor's cache; 8 MB took 15 % longer
LOOK_BACK: Final = 32 << 10
EVENT_MAX: Final = 64 << 20  # an event longer than this is none
META_MAX: Final = 32 << 20


class Pieces:
    """Iterating gives pieces of whole events, each a list in brackets but the last.

    Afterwards `head` and `tail` hold the text before the first and from the last piece's
    end (the last piece, which has no brackets, may hold more than events).
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self.head = b""
        self.found = False

    def __iter__(self) -> Iterator[tuple[bytes, bool]]:
        """(piece, whether it is the last, which holds the end of the document)."""
        rest = self._begin()
        if not self.found:
            return
        for chunk in self._chunks:
            rest = rest + chunk if rest else chunk
            while len(rest) >= PIECE:
                cut = _last_boundary(rest)
                if cut is None:
                    if len(rest) > EVENT_MAX:
                        rest = rest[-LOOK_BACK:]
                    break
                yield b"".join((b"[", memoryview(rest)[: cut[0]], b"]")), False
                rest = rest[cut[1] :]
        yield rest, True

    def _begin(self) -> bytes:
        """Everything up to the first event goes into `head`."""
        text = b""
        for chunk in self._chunks:
            text += chunk
            start = _EVENTS.search(text) or _BARE.match(text.removeprefix(b"\xef\xbb\xbf"))
            if start is not None:
                self.found = True
                offset = len(text) - len(start.string)
                self.head = text[: start.start() + offset] if start.re is _EVENTS else b""
                return text[start.end() + offset :]
            if len(text) > META_MAX:
                break
        self.head = text
        return b""


def _last_boundary(text: bytes) -> tuple[int, int] | None:
    """(end of an event, begin of the next), as late as possible."""
    low = max(0, len(text) - LOOK_BACK)
    while True:
        last = None
        for m in BOUNDARY.finditer(text, low):
            last = m
        if last is not None:
            return last.start() + 1, last.end()
        if low == 0:
            return None
        low = max(0, low - 16 * LOOK_BACK)


def events_in(piece: bytes) -> Iterator[bytes]:
    """The texts between boundaries, for reading one by one."""
    start = 0
    for m in BOUNDARY.finditer(piece):
        yield piece[start : m.start() + 1]
        start = m.end()
    yield piece[start:]
