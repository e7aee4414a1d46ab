"""A tar archive, as one forward stream -> one source per regular file in it.

`tarfile` reads the headers only; members are read from the stream itself, because
`tarfile` throws away what it has when a member ends early. After a damaged header the
next good one is looked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Final, Protocol, cast

from msgspec import Struct

from necropsy_parsers.source.archive import Archive, Reopen, Turn
from necropsy_parsers.source.content import is_tar, unpack
from necropsy_parsers.source.model import Source
from necropsy_parsers.source.notes import Notes, shown
from necropsy_parsers.source.stream import BLOCK, ByteStream, file_stream, stretch

if TYPE_CHECKING:
    import tarfile

_RECORD: Final = 512
_HEADER_MOST: Final = 1 << 20  # bytes of one extended header; the format would allow 8 GiB
# A run of digits that long is no header; CPython before 3.11.10 took quadratic time over it (CVE-2024-6232).
_DIGITS: Final = re.compile(rb"\d{64}")
# What `tarfile` was seen to raise on forged headers, its own errors apart.
_FORGED: Final = (ValueError, IndexError, KeyError, OverflowError, RecursionError)
_ZEROS: Final = bytes(BLOCK)


class _Member(Struct, frozen=True):
    """Where a regular file lies in the archive: `parts` are (offset in the file, bytes) that are stored."""

    name: str
    offset: int  # of the stored bytes, in the archive
    size: int  # of the file
    parts: tuple[tuple[int, int], ...]

    @property
    def stored(self) -> int:
        """Bytes in the archive; fewer than `size` for a sparse file."""
        return sum(length for _, length in self.parts)

    def blocks(self, stream: ByteStream, block: int, short: Callable[[int], None]) -> Iterator[bytes]:
        """The file's bytes, its holes included, from `stream` standing at `offset`."""
        at = 0
        for start, length in (*self.parts, (self.size, 0)):
            for done in range(at, start, BLOCK):
                yield _ZEROS[: min(BLOCK, start - done)]
            yield from stretch(stream, length, block, short)
            at = start + length


def tar_sources(archive: Archive, stream: ByteStream, reopen: Reopen | None, *, plain: bool) -> Iterator[Source]:
    """Yield the members of the archive in `stream`. `plain`: it is an uncompressed file."""
    for member in _members(archive, stream):
        if archive.full():
            return
        notes = archive.admit(member.name)
        turn = Turn(stream, member.offset, reopen)
        source = Source(
            notes.name,
            archive.path,
            member.stored if plain else None,
            _opener(archive, member, turn, notes, plain=plain),
            notes,
            lasting=plain,
        )
        yield source
        turn.over()


def _opener(archive: Archive, member: _Member, turn: Turn, notes: Notes, *, plain: bool) -> Callable[[int], ByteStream]:
    """How a source opens `member`: at its place in the file, or in its turn on the stream."""
    path = archive.path
    holes, inside = archive.share(), archive.share()

    def short(missing: int) -> None:
        kind = "source/limit" if "source/limit" in archive.notes.kinds else "source/truncated"
        notes(kind, f"the archive ends {missing:,} bytes before the end of this member")

    def again(position: int) -> ByteStream:  # in the compressed bytes of a member of a plain tar
        assert path is not None
        return file_stream(path, notes, offset=member.offset + position)

    def start(block: int) -> ByteStream:
        if plain and path is not None:
            taken: tuple[ByteStream, bool] | None = file_stream(path, notes, block=block, offset=member.offset), True
        else:
            taken = turn.take(notes)
        if taken is None:
            return ByteStream(())
        whole, own = taken
        first = whole.consumed()
        blocks = member.blocks(whole, block, short)
        if member.stored < member.size:
            blocks = holes.again().watch(blocks, lambda: member.stored, notes)
        if not own:
            blocks = turn.watch(blocks, notes)
        inner = ByteStream(blocks, consumed=lambda: whole.consumed() - first, close=whole.close if own else None)
        return unpack(inner, notes, inside.again(), replay=again if plain and member.stored == member.size else None)

    return start


def _members(archive: Archive, stream: ByteStream) -> Iterator[_Member]:
    """The regular files, in order, up to the archive's end; the stream then stands behind them."""
    notes = archive.notes
    headers = _Headers(stream)
    while True:
        trouble = yield from _until_trouble(archive, headers)
        if not trouble:
            return
        if not stream.peek(1):
            if not notes.kinds:
                notes("source/truncated", f"the archive ends after {stream.position:,} bytes, without its end mark")
            return
        notes("source/corrupt", f"the header before byte {stream.position:,} is damaged ({trouble})")
        while len(record := stream.peek(_RECORD)) == _RECORD:
            if record[257:262] == b"ustar" and is_tar(record):
                break
            stream.skip(_RECORD)
        else:
            return


def _until_trouble(archive: Archive, headers: _Headers) -> Generator[_Member, None, str]:
    """The regular files up to the end ("" is returned) or to a header that is none (why is returned)."""
    import tarfile

    try:
        tar = tarfile.TarFile(fileobj=cast(IO[bytes], headers), encoding="utf-8", errors="surrogateescape")
        while (info := tar.next()) is not None:
            cast(_Keeper, tar).members.clear()  # it would keep them all
            if info.size < 0:
                return "a negative size"
            if info.isreg():
                yield from _regular(archive, info)
            elif not info.isdir():
                archive.skip(info.name, "a link" if info.issym() or info.islnk() else "not a regular file")
    except (tarfile.TarError, *_FORGED) as error:
        return str(error) or type(error).__name__
    return "no header" if headers.last.strip(b"\0") or not headers.last else ""


def _regular(archive: Archive, info: tarfile.TarInfo) -> Iterator[_Member]:
    """The member, unless its map of holes is forged."""
    stored: Sequence[tuple[int, int]] = getattr(info, "sparse", None) or ((0, info.size),)
    parts = tuple((start, length) for start, length in stored if length)  # unused places of a map are (0, 0)
    at = 0
    for start, length in parts:
        if start < at or length < 0 or start + length > info.size:
            archive.notes("source/corrupt", f"{shown(info.name)}: an impossible map of holes")
            return
        at = start + length
    yield _Member(info.name, info.offset_data, info.size, parts)


class _Keeper(Protocol):
    """`tarfile.TarFile` has this attribute in every version; its stub does not."""

    members: list[tarfile.TarInfo]


class _Headers:
    """The stream as the file object that `tarfile` reads headers from: forward only, in small pieces."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self.last = b""

    def read(self, size: int) -> bytes:
        """Raises `tarfile.ReadError` for what no honest header asks for."""
        import tarfile

        if not 0 <= size <= _HEADER_MOST:
            raise tarfile.ReadError("a header of impossible size")
        self.last = self._stream.read(size)
        if size > _RECORD and _DIGITS.search(self.last):
            raise tarfile.ReadError("a number of impossible length")
        return self.last

    def tell(self) -> int:
        """Position in the archive."""
        return self._stream.position

    def seek(self, position: int) -> None:
        """Forward. Raises `tarfile.ReadError` for a member of negative size."""
        import tarfile

        if position < self._stream.position:
            raise tarfile.ReadError("a member of negative size")
        self._stream.skip(position - self._stream.position)
