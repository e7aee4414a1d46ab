"""A zip archive on disk -> one source per file in it, by the directory at its end.

`zipfile` reads the directory; the members are read by `zipentry`, because `zipfile`
withholds the last bytes of a member whose checksum is wrong.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

from necropsy_parsers.source.archive import Archive
from necropsy_parsers.source.content import unpack
from necropsy_parsers.source.model import Source
from necropsy_parsers.source.notes import Notes
from necropsy_parsers.source.stream import ByteStream, file_stream, open_regular
from necropsy_parsers.source.zipentry import Entry, Reading, read_local

if TYPE_CHECKING:
    import zipfile
    from io import FileIO

_ENTRY_BYTES: Final = 128  # of the directory, for each member that the limits allow
# What `zipfile` was seen to raise on forged directories, its own errors apart.
_FORGED: Final = (OSError, ValueError, NotImplementedError, OverflowError, RuntimeError)


class _Bounded:
    """The archive as `zipfile` sees it: a directory that would fill the memory is not read."""

    def __init__(self, file: FileIO, most: int) -> None:
        self.seek = file.seek
        self.tell = file.tell
        self._file = file
        self._most = most

    def read(self, size: int = -1) -> bytes:
        """Raises `ValueError` for more bytes than a directory may have."""
        if size > self._most:
            raise ValueError("a very large directory")
        return self._file.read(size)


def read_directory(path: Path, members: int) -> list[zipfile.ZipInfo] | None:
    """The directory of a zip archive; None if there is none, it is damaged, or larger than for `members`."""
    import zipfile

    try:
        with open_regular(path) as file:
            bounded = cast(IO[bytes], _Bounded(file, max(1 << 16, members * _ENTRY_BYTES)))
            return zipfile.ZipFile(bounded).infolist()
    except (zipfile.BadZipFile, *_FORGED):
        return None


def directory_sources(archive: Archive, path: Path, directory: list[zipfile.ZipInfo]) -> Iterator[Source]:
    """Yield the files of the archive at `path` in the order of its directory."""
    for info in directory:
        if info.is_dir():
            continue
        if archive.full():
            return
        entry = Entry(info.filename, info.compress_type, bool(info.flag_bits & 1), info.compress_size, info.CRC)
        why = "a link" if stat.S_ISLNK(info.external_attr >> 16) else entry.why_not()
        if why:
            archive.skip(entry.name, why)
            continue
        notes = archive.admit(entry.name)
        opener = _Opener(archive, path, info.header_offset, entry, notes)
        yield Source(notes.name, path, entry.stored, opener.open, notes)


class _Opener:
    """Opens one member at its place in the file."""

    def __init__(self, archive: Archive, path: Path, offset: int, entry: Entry, notes: Notes) -> None:
        self._path = path
        self._offset = offset
        self._entry = entry
        self._notes = notes
        self._outer, self._inner = archive.share(), archive.share()

    def open(self, block: int) -> ByteStream:
        """The member's bytes."""
        notes, entry = self._notes, self._entry
        block = min(block, max(entry.stored or 0, 1 << 12))
        file = file_stream(self._path, notes, block=block, offset=max(0, self._offset))
        if self._offset < 0 or read_local(file) is None:
            if not notes.kinds:
                notes("source/corrupt", "the archive's directory names a place where this member is not")
            file.close()
            return ByteStream(())
        first = self._offset + file.position

        def replay(position: int) -> ByteStream:
            return file_stream(self._path, notes, offset=first + position)

        blocks = Reading(entry, file, notes, self._outer.again(), replay).blocks(block)
        start = file.position
        inner = ByteStream(blocks, consumed=lambda: file.position - start, close=file.close)
        stored = entry.method == 0
        return unpack(inner, notes, self._inner.again(), replay=replay if stored else None)
