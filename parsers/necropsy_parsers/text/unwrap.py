"""Logs that were wrapped at a fixed column (`fold -w 120`, copies from a terminal) to whole lines again.

    V1129 12:21:04.426000 502 torch/_dynamo/guards.py:4760] [0/1] [__recompiles] Recompiling function forward in /home
    /trainer/projects/vit/net.py:63

A wrapped log shows: lines with a logger's head fill the width exactly, none is longer, and what follows them has no
head, although every line of such a message bears one. Only lines that begin with a head, or frames of a traceback,
are joined with what follows. Records keep the places of the file as it is.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor, Record

SAMPLE: Final = 1 << 16
LEAST: Final = 8  # wrapped lines in the sample
NARROWEST: Final = 40
_HEAD: Final = re.compile(
    rb".{0,60}?(?:[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ |\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\] )", re.DOTALL
)
_FRAME: Final = re.compile(rb'\s{2,12}File "')


def _in_bytes(line: bytes) -> int:
    return len(line)


def _in_characters(line: bytes) -> int:
    return len(line.decode("utf-8", "replace"))


class _Wrap:
    """The width at which lines were broken, and how it is counted."""

    def __init__(self, width: int, measure: Callable[[bytes], int]) -> None:
        self.width = width
        self.measure = measure

    def full(self, line: bytes) -> bool:
        """Whether a line fills the width."""
        return len(line) >= self.width and self.measure(line) == self.width


def found(sample: bytes) -> _Wrap | None:
    """How a log is wrapped, or None: most are not."""
    lines = [line.rstrip(b"\r") for line in sample.split(b"\n")[:-1]]
    heads = [_HEAD.match(line) is not None for line in lines]
    for measure in (_in_bytes, _in_characters):
        lengths = [measure(line) if head else 0 for line, head in zip(lines, heads, strict=True)]
        width = max(lengths, default=0)
        if width < NARROWEST:
            return None
        at = [i for i, n in enumerate(lengths[:-1]) if n == width]
        broken = sum(not heads[i + 1] and lines[i + 1] != b"" for i in at)
        if broken >= LEAST and broken >= 0.8 * len(at) and max(map(measure, lines)) == width:
            return _Wrap(width, measure)
    return None


class _Joiner:
    """Joins the lines of a log chunk by chunk, and keeps where line ends were taken out."""

    def __init__(self, wrap: _Wrap) -> None:
        self._wrap = wrap
        self._out = 0  # bytes given out
        self._cuts = array("q")  # where, in what was given out, a line end was taken out

    def joined(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The text with whole lines; a line that may go on in the next chunk waits for it."""
        waiting: list[bytes] = []
        for chunk in chunks:
            lines = chunk.split(b"\n")
            if not lines[-1]:  # the last line of a file may lack its end
                lines.pop()
            given: list[bytes] = []
            for line in lines:
                if waiting and not self._goes_on(waiting, line):
                    given.append(self._given(waiting))
                    waiting = []
                waiting.append(line)
                if not self._open(waiting):
                    given.append(self._given(waiting))
                    waiting = []
            if given:
                yield b"".join(given)
        if waiting:
            yield self._given(waiting)

    def _open(self, waiting: list[bytes]) -> bool:
        """Whether more may follow: the first line can be wrapped, and the last fills the width."""
        first = waiting[0]
        return self._wrap.full(waiting[-1]) and (_HEAD.match(first) is not None or _FRAME.match(first) is not None)

    def _goes_on(self, waiting: list[bytes], line: bytes) -> bool:
        """Whether a line is the rest of the one before: a frame's rest is not indented as the code below it is."""
        frame = _HEAD.match(waiting[0]) is None
        return line != b"" and _HEAD.match(line) is None and not (frame and line[:1] in (b" ", b"\t"))

    def _given(self, parts: list[bytes]) -> bytes:
        for part in parts[:-1]:
            self._out += len(part)
            self._cuts.append(self._out)
        self._out += len(parts[-1]) + 1
        return b"".join(parts) + b"\n"

    def placed(self, anchor: Anchor) -> Anchor:
        """An anchor as it stands in the file."""
        before = bisect_right(self._cuts, anchor.start)
        end = anchor.end + bisect_right(self._cuts, max(anchor.start, anchor.end - 1))
        return Anchor(anchor.input, anchor.start + before, end, anchor.line + before, anchor.text)

    @property
    def count(self) -> int:
        """Line ends taken out."""
        return len(self._cuts)


def records(
    chunks: Iterable[bytes], read: Callable[[Iterable[bytes]], Iterator[Record]], name: str, issues: Issues
) -> Iterator[Record]:
    """What `read` makes of the chunks, whole lines given to it where the log was wrapped."""
    chunks = iter(chunks)
    first = next(chunks, b"")
    wrap = found(first[:SAMPLE])
    if wrap is None:
        yield from read(chain([first] if first else [], chunks))
        return
    joiner = _Joiner(wrap)
    for record in read(joiner.joined(chain([first], chunks))):
        yield replace(record, anchor=joiner.placed(record.anchor))
    issues.add("text/wrapped", name, count=joiner.count, unit="lines", detail=f"at column {wrap.width}")
