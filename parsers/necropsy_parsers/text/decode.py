"""Bytes as they lie in a file -> UTF-8 chunks that end at line ends.

Undone here: byte-order marks, UTF-16 and UTF-32, NUL bytes (sparse or preallocated
logs) and CRLF. Windows PowerShell 5 writes UTF-16 for `>` and appends it with `>>`
even to a UTF-8 file, so UTF-16 is recognised per stretch, not per file (see `utf16`).
The result does not depend on where the input happened to be cut into chunks.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.text.utf16 import Converter

_HEAD: Final = 4096  # bytes looked at to tell UTF-16 without a byte-order mark
_RARE: Final = 1000  # bytes of text for each NUL from which on these are no hole in a file
_ALTERNATING: Final = re.compile(rb"(?:[^\0]\0){3}|(?:\0[^\0]){3}", re.DOTALL)  # text split by NULs has none


def text_chunks(chunks: Iterable[bytes], name: str, issues: Issues, size: int = 4 << 20) -> Iterator[bytes]:
    """Yield `chunks` as UTF-8 text in pieces of about `size` bytes (never above twice that).

    Every piece ends with a line feed, but for the last one and for lines longer than
    `size`, which are cut anywhere. A lone carriage return stays. Bytes that are not
    UTF-8 pass unchanged: whoever decodes a line replaces them. Removed NUL bytes are
    counted as `text/nul` of input `name`, single ones as `text/nul-in-line`. Never raises on content.
    """
    return _whole_lines(_unix_newlines(_utf8(chunks, name, issues)), size)


def _utf8(chunks: Iterable[bytes], name: str, issues: Issues) -> Iterator[bytes]:
    """Undo the encoding; NULs are dropped and counted."""
    rest = iter(chunks)
    head = _head(rest)
    encoding, mark = guess_encoding(head)
    if encoding.startswith("utf-32"):
        yield from _utf32(chain((head[mark:],), rest), encoding)
        return
    converter, size = Converter(encoding), 0
    for chunk in chain((head[mark:] if mark else head,), rest):
        yield from converter.feed(chunk)
        size = len(chunk)
        _tell_nuls(converter, size, name, issues)
    yield from converter.finish()
    _tell_nuls(converter, size, name, issues)


def _tell_nuls(converter: Converter, size: int, name: str, issues: Issues) -> None:
    if converter.nuls:
        few = not converter.hole and converter.nuls * _RARE < size
        issues.add("text/nul-in-line" if few else "text/nul", name, count=converter.nuls, unit="bytes")
    converter.nuls = 0


def _head(chunks: Iterator[bytes]) -> bytes:
    """The first chunks, together at least `_HEAD` bytes unless the input is shorter."""
    head = next(chunks, b"")
    if len(head) >= _HEAD:
        return head
    parts = [head]
    have = len(head)
    for chunk in chunks:
        parts.append(chunk)
        have += len(chunk)
        if have >= _HEAD:
            break
    return b"".join(parts)


def guess_encoding(head: bytes) -> tuple[str, int]:
    """The encoding an input starts with, and the length in bytes of its byte-order mark.

    One of `utf-8` (also for anything unknown), `utf-16-le`, `utf-16-be`, `utf-32-le`, `utf-32-be`.
    """
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8", 3
    if head.startswith(codecs.BOM_UTF32_BE):
        return "utf-32-be", 4
    if head.startswith(codecs.BOM_UTF32_LE) and any(head[4:6]) and head[6:7] <= b"\x10" and head[7:8] == b"\0":
        return "utf-32-le", 4  # the test of the first character: else it is UTF-16 that goes on with NULs
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le", 2
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be", 2
    return _guess_by_nuls(head[:_HEAD]), 0


def _guess_by_nuls(head: bytes) -> str:
    """ASCII characters in UTF-16 show as NULs in every second byte, always the same one."""
    first = head.find(b"\0")
    if first < 0 or not _ALTERNATING.search(head):
        return "utf-8"
    units = (len(head) + 1) // 2
    nuls = (head[0::2].count(0), head[1::2].count(0))
    side = first % 2
    if nuls[side] * 4 < units or nuls[1 - side] * 50 > units:
        return "utf-8"
    before = head[: first - 1] if side else head[:first]
    if before and _is_utf8(before):
        return "utf-8"  # 8-bit text to which UTF-16 was appended: the converter finds where
    return "utf-16-le" if side else "utf-16-be"


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _utf32(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode()
    yield decoder.decode(b"", True).encode()


def _unix_newlines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """CRLF -> LF, also where the two fell into different blocks."""
    held = b""
    for block in blocks:
        if held:
            block = held + block
            held = b""
        if block.endswith(b"\r"):
            held = b"\r"
            block = block[:-1]
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        if block:
            yield block
    if held:
        yield held


def _whole_lines(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Cut again, at line ends; a block's unfinished last line waits for the next block."""
    waiting: list[bytes | memoryview] = []
    length = 0
    for block in blocks:
        for start in range(0, len(block), size):
            stop = min(start + size, len(block))
            end = block.rfind(b"\n", start, stop) + 1
            if end:
                waiting.append(memoryview(block)[start:end])
                yield b"".join(waiting)
                waiting.clear()
                length = 0
                start = end
            if start < stop:
                waiting.append(block[start:stop])
                length += stop - start
            if length >= size:
                yield b"".join(waiting)
                waiting.clear()
                length = 0
    if waiting:
        yield b"".join(waiting)
