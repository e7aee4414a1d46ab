"""Bytes of a structured log to its entries: a head of one line, and a payload whose lines are indented by a tab.

V1129 12:21:29.785000 947 torch/_dynamo/symbolic_convert.py:5101] {"artifact": {"name": ...}, "frame_id": 0, ...}
        Graph break in user code at /home/trainer/projects/vision/train.py:67

torch/_logging/_internal.py (`TorchLogsFormatter` with `trace=True`, `LazyTraceHandler`), 2.3 to 2.13: always level V,
never a prefix before it, a newline at the end of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

MAX_ENTRY: Final = 256 << 20  # bytes of one entry; the source of a large model's kernels has some 10 MiB
_NEXT: Final = b"\nV"
# A payload's lines begin with a tab. What begins otherwise was written by somebody else into the same file.
_FOREIGN: Final = re.compile(rb"\n(?![\tV]|\r?\n|\Z)")
HEAD: Final = re.compile(
    rb"V(?P<time>\d{4} \d\d:\d\d:\d\d\.\d{3,9}) +(?P<pid>\d+) (?P<file>[^\n\]]*?):(?P<line>\d+)\] (?P<json>\{[^\n]*)"
)


class Piece(Struct, frozen=True, gc=False):
    """One entry as bytes: `start` is its offset in the input, `line` is 1-based, `last` tells that the input ends."""

    data: bytes
    start: int
    line: int
    last: bool


def pieces(chunks: Iterable[bytes]) -> Iterator[Piece]:
    """The entries in order; of one that grows beyond all bounds the rest is left out."""
    held: list[bytes] = []
    size, start, line = 0, 0, 1
    for chunk in chunks:
        # The mark may lie across two chunks: one byte of the last is looked at again.
        seam = held[-1][-1:] if held else b""
        cut = (seam + chunk).rfind(_NEXT) - len(seam)
        if cut < -len(seam):
            if size < MAX_ENTRY:
                held.append(chunk)
            size += len(chunk)
            continue
        joined = b"".join([*held, chunk])
        cut += len(joined) - len(chunk)
        for piece in _split(joined[:cut], start, line, last=False):
            yield piece
            line = piece.line + piece.data.count(b"\n") + 1
        start += cut + 1
        held, size = [joined[cut + 1 :]], 0
    yield from _split(b"".join(held), start, line, last=True)


def _split(data: bytes, start: int, line: int, *, last: bool) -> Iterator[Piece]:
    """Entries of a stretch that begins with one and ends with one."""
    parts = data.split(_NEXT)
    for number, part in enumerate(parts):
        whole = b"V" + part if number else part
        yield Piece(whole, start, line, last and number == len(parts) - 1)
        start += len(whole) + 1
        line += whole.count(b"\n") + 1


def foreign_lines(data: bytes) -> int:
    """How many lines of an entry are neither its head nor its payload."""
    return sum(1 for _ in _FOREIGN.finditer(data)) if data.count(b"\n") != data.count(b"\n\t") else 0


def payload_of(data: bytes) -> str:
    """An entry's payload as torch wrote it, without what strangers wrote behind it."""
    at = data.find(b"\n\t")
    if at < 0:
        return ""
    stranger = _FOREIGN.search(data, at)
    body = data[at + 2 : stranger.start() if stranger else len(data)]
    return body.replace(b"\n\t", b"\n").decode("utf-8", "replace").rstrip("\r\n")
