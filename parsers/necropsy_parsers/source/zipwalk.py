"""A zip archive as one forward stream -> one source per file in it, by the members' own headers.

For archives whose directory is missing (cut, or still being written) and for pipes,
which cannot be read from the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.source.archive import Archive, Reopen, Turn
from necropsy_parsers.source.content import unpack
from necropsy_parsers.source.model import Source
from necropsy_parsers.source.notes import Note, ignore
from necropsy_parsers.source.stream import BLOCK, ByteStream
from necropsy_parsers.source.zipentry import LOCAL, Entry, Reading, descriptor, read_local

_DIRECTORY: Final = (b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x08")
_NEXT: Final = re.compile(rb"PK(?:\x03\x04|\x01\x02|\x05\x06)")


def walked_sources(archive: Archive, stream: ByteStream, reopen: Reopen | None) -> Iterator[Source]:
    """Yield the files of the archive in `stream`, which is read forward only."""
    while _at_member(archive, stream):
        entry = read_local(stream)
        if entry is None:
            archive.notes("source/truncated", "the archive ends within a member's header")
            return
        if archive.full():
            return
        if entry.name.endswith("/"):
            _pass(stream, stream.position, entry)
        elif why := entry.why_not():
            archive.skip(entry.name, why)
            _pass(stream, stream.position, entry)
        else:
            member = _Walked(archive, stream, entry, reopen)
            yield member.source
            member.over()


def _at_member(archive: Archive, stream: ByteStream) -> bool:
    """Is `stream` at a member, if need be after a search? False at the archive's end."""
    start = stream.peek(4)
    if start.startswith(_DIRECTORY):
        return False
    if len(start) < len(LOCAL):
        archive.notes("source/truncated", f"the archive ends after {stream.position:,} bytes, without its directory")
        return False
    if start == LOCAL:
        return True
    archive.notes("source/corrupt", f"no member begins at byte {stream.position:,}, where one should")
    return _search(stream) == LOCAL


def _search(stream: ByteStream) -> bytes:
    """Go forward to the next header; what begins there, b"" at the end."""
    while data := stream.read(BLOCK):
        if found := _NEXT.search(data):
            stream.unread(data[found.start() :])
            return found[0]
        if len(data) == BLOCK:
            stream.unread(data[-3:])
    return b""


def _pass(stream: ByteStream, start: int, entry: Entry) -> None:
    """Go from anywhere in a member's bytes, which begin at `start`, to what follows them."""
    if entry.stored is None:
        _search(stream)
    else:
        stream.skip(start + entry.stored - stream.position)


class _Walked:
    """A member met on the walk, and its source."""

    def __init__(self, archive: Archive, stream: ByteStream, entry: Entry, reopen: Reopen | None) -> None:
        self._outer, self._inner = archive.share(), archive.share()
        self._stream = stream
        self._entry = entry
        self._start = stream.position
        self._notes = archive.admit(entry.name)
        self._turn = Turn(stream, self._start, reopen)
        self._reading: Reading | None = None
        self._rest: Iterator[bytes] = iter(())
        self.source = Source(self._notes.name, archive.path, entry.stored, self._open, self._notes, lasting=False)

    def _open(self, block: int) -> ByteStream:
        taken = self._turn.take(self._notes)
        if taken is None:
            return ByteStream(())
        stream, own = taken
        reading, blocks = self._read(stream, block, self._notes)
        if not own:
            self._reading, self._rest = reading, blocks
            blocks = self._turn.watch(blocks, self._notes)
        start = stream.position
        inner = ByteStream(blocks, consumed=lambda: stream.position - start, close=stream.close if own else None)
        return unpack(inner, self._notes, self._inner.again())

    def _read(self, stream: ByteStream, block: int, note: Note) -> tuple[Reading, Iterator[bytes]]:
        reading = Reading(self._entry, stream, note, self._outer.again(), None)
        return reading, reading.blocks(block)

    def over(self) -> None:
        """The walk goes on: bring the stream to the end of this member, read or not."""
        taken = self._turn.over()
        if self._entry.stored is not None:
            _pass(self._stream, self._start, self._entry)
            return
        if not taken:
            self._reading, self._rest = self._read(self._stream, BLOCK, ignore)
        for _ in self._rest:  # only decompressing tells where it ends
            pass
        crc = descriptor(self._stream)
        if crc is not None and taken and self._reading:
            self._reading.check(crc)
