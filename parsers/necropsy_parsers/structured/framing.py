"""Bytes of a structured log to its entries: a head of one line, and a payload whose lines are indented by a tab.

V1129 12:21:29.785000 947 torch/_dynamo/symbolic_convert.py:5101] {"artifact": {"name": ...}, "frame_id": 0, ...}
        Graph break in user code at /home/trainer/projects/vision/train.py:67

torch/_logging/_internal.py (`TorchLogsFormatter` with `trace=True`, `LazyTraceHandler`), 2.3 to 2.13: always level V,
never a prefix before it, a newline at the end of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

MAX_ENTRY: Final = 256 << 20  # bytes of one entry; the source of a large model's kernels has some 10 MiB
_MARK: Final = b"\nV"
_NEWLINE: Final = ord("\n")
_TAB: Final = ord("\t")
_LONG: Final = 512  # bytes of a line from which on looking for its end takes less than counting among its bytes
_BLOCK: Final = 16384  # bytes in which line ends are counted once a line was short
_MISSES: Final = 16  # letters V within lines before an entry's end is looked for by both of its bytes
# What an entry is can be told from its first bytes: its own key stands first, an artifact's name behind it.
_OPENING: Final = re.compile(rb"V(?:[^\n\]]{1,600}+\] \{\"(?P<kind>\w++)\"(?:: \{\"name\": \"(?P<name>\w++)\")?)?")
# A payload's lines begin with a tab. What begins otherwise was written by somebody else into the same file.
_FOREIGN: Final = re.compile(rb"\n(?![\tV]|\r?\n|\Z)")
HEAD: Final = re.compile(
    rb"V(?P<time>\d{4} \d\d:\d\d:\d\d\.\d{3,9}) +(?P<pid>\d{1,18}) [^\n\]]*?:\d+\] (?P<json>\{[^\n]*)"
)


class Stretch:
    """Entries that follow each other; lines are counted once, up to where somebody asks."""

    def __init__(self, data: bytes, start: int, line: int, at: int = 0) -> None:
        """`start`: where `data` begins in the input; `line`: of the byte at `at`."""
        self.data, self.start = data, start
        self._at, self._line = at, line

    def line(self, offset: int) -> int:
        """The 1-based line in the input at `offset` from the beginning of the data; offsets must not fall."""
        self._line += line_ends(self.data, self._at, offset)
        self._at = max(self._at, offset)
        return self._line


def line_ends(data: bytes, begin: int, end: int) -> int:
    """How many lines end between two offsets.

    Half of a log's bytes are in lines so long that it is faster to look for their ends than to count.
    """
    found, at = 0, begin
    while at < end:
        stop = data.find(b"\n", at, end)
        if stop < 0:
            break
        short, at = stop - at < _LONG, stop + 1
        found += 1
        if short:
            stop = min(end, at + _BLOCK)
            found, at = found + data.count(b"\n", at, stop), stop
    return found


class Piece(Struct, frozen=True, gc=False):
    """One entry as bytes: `at` is its offset in its stretch, `last` tells that the input ends with it."""

    data: bytes
    stretch: Stretch
    at: int
    last: bool

    @property
    def start(self) -> int:
        """Its offset in the input."""
        return self.stretch.start + self.at

    @property
    def line(self) -> int:
        """Its 1-based line in the input."""
        return self.stretch.line(self.at)


# The opening of an entry, with its kind and name where they stand first, and where the entry ends: nine of ten are
# passed over where they lie.
Passed = Callable[[re.Match[bytes], int], bool]


def pieces(chunks: Iterable[bytes], passed: Passed) -> Iterator[Piece]:
    """The entries in order, without those that `passed` says are sound and of no interest.

    An entry that grows beyond all bounds ends there.
    """
    held: list[bytes] = []  # an entry that may go on
    size, start, line = 0, 0, 1
    for chunk in chunks:
        first = _first(held, chunk)
        if first < 0:
            held.append(chunk)
            size += len(chunk)
            if size > MAX_ENTRY:  # its rest is nobody's entry and is counted as such
                stretch = Stretch(b"".join(held), start, line)
                yield from _split(stretch, passed, 0, size, last=False)
                start, line = start + size, stretch.line(size)
                held, size = [], 0
            continue
        if held:
            stretch = Stretch(b"".join([*held, chunk[:first]]), start, line)
            size = len(stretch.data)
            yield from _split(stretch, passed, 0, size - 1, last=False)
            start, line = start + size, stretch.line(size)
        final = chunk.rfind(_MARK, first) + 1 or first
        stretch = Stretch(chunk, start - first, line, first)
        if final > first:
            yield from _split(stretch, passed, first, final - 1, last=False)
        start, line = start + final - first, stretch.line(final)
        held = [chunk[final:]]
        size = len(held[0])
    rest = b"".join(held)
    yield from _split(Stretch(rest, start, line), passed, 0, len(rest), last=True)


def _first(held: list[bytes], chunk: bytes) -> int:
    """Where the first entry begins that does not belong to what is held; the mark may lie across two chunks."""
    if not held or (held[-1][-1:] == b"\n" and chunk[:1] == b"V"):
        return 0
    at = chunk.find(_MARK)
    return at + 1 if at >= 0 else -1


def _split(stretch: Stretch, passed: Passed, begin: int, end: int, *, last: bool) -> Iterator[Piece]:
    """The entries of a stretch, and what may stand before the first of an input."""
    data = stretch.data
    opening = _OPENING.match(data, begin, end)
    at = begin if opening is not None else _next(data, begin + 1, end)
    if opening is None:
        before = at - 1 if at >= 0 else end
        yield Piece(data[begin:before], stretch, begin, last and at < 0)
    while at >= 0:
        later = _next(data, at + 1, end)
        stop = later - 1 if later >= 0 else end
        ends = last and later < 0
        opening = _OPENING.match(data, at, stop)
        if ends or opening is None or not passed(opening, stop):
            yield Piece(data[at:stop], stretch, at, ends)
        at = later


def _next(data: bytes, at: int, end: int) -> int:
    """Where the next entry begins, -1 without one.

    Looking for one byte is six times as fast as for two (`memchr`), as long as it does not stand everywhere.
    """
    for _ in range(_MISSES):
        at = data.find(b"V", at, end)
        if at < 0 or data[at - 1] == _NEWLINE:
            return at
        at += 1
    at = data.find(_MARK, at - 1, end)
    return at + 1 if at >= 0 else -1


def foreign_lines(data: bytes) -> int:
    """How many lines of an entry are neither its head nor its payload."""
    at = data.find(b"\n") + 1
    inner = len(data) - data.endswith(b"\n")
    if not at or at > inner:
        return 0
    if data.find(b"\n", at, inner) < 0:  # a payload of one line: most of the long ones
        return int(data[at] != _TAB and _FOREIGN.match(data, at - 1) is not None)
    if data.count(b"\n", 0, inner) == data.count(b"\n\t"):
        return 0
    return sum(1 for _ in _FOREIGN.finditer(data))


def without_foreign(data: bytes) -> bytes:
    """An entry up to the first line of somebody else."""
    stranger = _FOREIGN.search(data)
    return data[: stranger.start()] if stranger is not None else data


def raw_payload(data: bytes) -> bytes:
    """An entry's payload with the tabs before its lines."""
    at = data.find(b"\n\t")
    return data[at + 2 :] if at >= 0 else b""


def payload_of(data: bytes) -> str:
    """An entry's payload as torch wrote it."""
    return raw_payload(data).replace(b"\n\t", b"\n").decode("utf-8", "replace").rstrip("\r\n")
