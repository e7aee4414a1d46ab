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
_NEXT: Final = b"\nV"
# A payload's lines begin with a tab. What begins otherwise was written by somebody else into the same file.
_FOREIGN: Final = re.compile(rb"\n(?![\tV]|\r?\n|\Z)")
HEAD: Final = re.compile(
    rb"V(?P<time>\d{4} \d\d:\d\d:\d\d\.\d{3,9}) +(?P<pid>\d+) (?P<file>[^\n\]]*?):(?P<line>\d+)\] (?P<json>\{[^\n]*)"
)


class Stretch:
    """Entries that follow each other, as bytes; lines are counted once, up to where somebody asks."""

    def __init__(self, data: bytes, start: int, line: int) -> None:
        self.data, self.start = data, start
        self._at, self._line = 0, line

    def line(self, offset: int) -> int:
        """The 1-based line in the input at `offset` from the beginning of the stretch; offsets must not fall."""
        self._line += self.data.count(b"\n", self._at, offset)
        self._at = max(self._at, offset)
        return self._line


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


def pieces(chunks: Iterable[bytes], passed: Callable[[bytes], bool]) -> Iterator[Piece]:
    """The entries in order, without those that `passed` says are sound and of no interest.

    An entry that grows beyond all bounds ends there.
    """
    held: list[bytes] = []
    size, start, line = 0, 0, 1
    for chunk in chunks:
        # The mark may lie across two chunks: one byte of the last is looked at again.
        seam = held[-1][-1:] if held else b""
        cut = (seam + chunk).rfind(_NEXT) - len(seam)
        if cut < -len(seam):
            held.append(chunk)
            size += len(chunk)
            if size > MAX_ENTRY:  # its rest is nobody's entry and is counted as such
                stretch = Stretch(b"".join(held), start, line)
                yield from _split(stretch, passed, last=False)
                start, line = start + size, stretch.line(size)
                held, size = [], 0
            continue
        joined = b"".join([*held, chunk])
        cut += len(joined) - len(chunk)
        stretch = Stretch(joined[:cut], start, line)
        yield from _split(stretch, passed, last=False)
        line = stretch.line(cut) + 1
        start += cut + 1
        held = [joined[cut + 1 :]]
        size = len(held[0])
    yield from _split(Stretch(b"".join(held), start, line), passed, last=True)


def _split(stretch: Stretch, passed: Callable[[bytes], bool], *, last: bool) -> Iterator[Piece]:
    """The entries of a stretch, and what may stand before the first of an input."""
    data, at = stretch.data, 0
    if data[:1] != b"V":
        before = data.find(_NEXT)
        at = before + 1 if before >= 0 else len(data)
        yield Piece(data[: max(0, at - 1)] if before >= 0 else data, stretch, 0, last and before < 0)
        if before < 0:
            return
    parts = data[at + 1 :].split(_NEXT)
    end = len(parts) - 1
    for number, part in enumerate(parts):
        ends = last and number == end
        if ends or not passed(part):
            yield Piece(b"V" + part, stretch, at, ends)
        at += len(part) + 2


def foreign_lines(data: bytes) -> int:
    """How many lines of an entry are neither its head nor its payload."""
    if data.count(b"\n") - data.endswith(b"\n") == data.count(b"\n\t"):
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
