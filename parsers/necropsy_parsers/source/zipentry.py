"""One member of a zip archive: its header, and its bytes decompressed and checked."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy_parsers.source.codec import BZIP2, DEFLATE, XZ, ZSTD, Codec
from necropsy_parsers.source.decompress import Expander, Replay
from necropsy_parsers.source.limits import Budget
from necropsy_parsers.source.notes import Note
from necropsy_parsers.source.stream import ByteStream, stretch

LOCAL: Final = b"PK\x03\x04"
_HEADER: Final = struct.Struct("<4s2xHH4xIIIHH")  # flags, method, checksum, sizes (stored, real), lengths
_CODECS: Final[dict[int, Codec]] = {8: DEFLATE, 12: BZIP2, 93: ZSTD, 95: XZ}
_STORED: Final = 0
_ENCRYPTED: Final = 0x1
_SIZES_FOLLOW: Final = 0x8
_UTF8: Final = 0x800
_IN_EXTRA: Final = 0xFFFFFFFF  # a size that did not fit; the extra field 1 has it


class Entry(Struct, frozen=True):
    """A member's header. `stored` (bytes in the archive) and `crc` are None where they follow the data."""

    name: str
    method: int
    encrypted: bool
    stored: int | None
    crc: int | None

    def why_not(self) -> str:
        """Why the member cannot be opened, or ""."""
        if self.encrypted:
            return "encrypted"
        if self.method != _STORED and self.method not in _CODECS:
            return f"compressed with method {self.method}, which is not supported"
        if self.method == _STORED and self.stored is None:
            return "of unknown length"  # stored without its size: the next member cannot be told from its bytes
        return ""


def read_local(stream: ByteStream) -> Entry | None:
    """The header that `stream` stands at, which is then at the member's bytes; None if it is none."""
    head = stream.read(_HEADER.size)
    if len(head) < _HEADER.size or not head.startswith(LOCAL):
        return None
    _, flags, method, crc, stored, size, name_length, extra_length = _HEADER.unpack(head)
    name, extra = stream.read(name_length), stream.read(extra_length)
    if stored == _IN_EXTRA:
        stored = _long_size(extra, skip=8 if size == _IN_EXTRA else 0)
    later = bool(flags & _SIZES_FOLLOW) and not stored
    return Entry(
        _name(name, bool(flags & _UTF8)),
        method,
        bool(flags & _ENCRYPTED),
        None if later else stored,
        None if later else crc,
    )


def _name(name: bytes, utf8: bool) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return name.decode("utf-8", "replace") if utf8 else name.decode("cp437")


def _long_size(extra: bytes, skip: int) -> int:
    """The stored size from the ZIP64 extra field; 0 where it is missing."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            return int.from_bytes(extra[at + 4 + skip : at + 12 + skip], "little")
        at += 4 + length
    return 0


class Reading:
    """The bytes of one member from `stream` standing at them; afterwards `crc` is their checksum."""

    def __init__(self, entry: Entry, stream: ByteStream, note: Note, budget: Budget, replay: Replay | None) -> None:
        self.crc = 0
        self._entry = entry
        self._stream = stream
        self._note = note
        self._budget = budget
        self._replay = replay
        self._cut = False

    def blocks(self, block: int) -> Iterator[bytes]:
        """The decompressed bytes; a wrong checksum is noted after the last."""
        from isal import isal_zlib

        entry, stream = self._entry, self._stream
        start = stream.position
        inner = stream
        if entry.stored is not None:
            inner = ByteStream(stretch(stream, entry.stored, block, self._short))
        codec = _CODECS.get(entry.method)
        blocks: Iterator[bytes]
        if codec is None:
            blocks = stretch(stream, entry.stored or 0, block, self._short)
        else:
            blocks = Expander(codec, inner, self._trouble, replay=self._replay, chain=False).blocks()
        for data in self._budget.watch(blocks, lambda: stream.position - start, self._trouble):
            self.crc = isal_zlib.crc32(data, self.crc)
            yield data
        if entry.crc is not None:
            self.check(entry.crc)

    def check(self, crc: int) -> None:
        """Note a checksum that differs from that of the bytes read, unless other trouble explains it."""
        if crc != self.crc and not self._cut:
            self._trouble("source/corrupt", "the checksum is wrong: some bytes are not what was packed")

    def _short(self, missing: int) -> None:
        self._trouble("source/truncated", f"the archive ends {missing:,} bytes before the end of this member")

    def _trouble(self, kind: str, detail: str) -> None:
        self._cut = True
        self._note(kind, detail)


def descriptor(stream: ByteStream) -> int | None:
    """Step over the checksum and sizes that follow a member whose header lacked them; the checksum."""
    for lead, length in ((b"PK\x07\x08", 16), (b"PK\x07\x08", 24), (b"", 12), (b"", 20)):
        data = stream.peek(length + 2)
        if data.startswith(lead) and data[length:] == b"PK":
            stream.skip(length)
            return int.from_bytes(data[len(lead) : len(lead) + 4], "little")
    return None
