"""A forward stream of bytes with push-back, over blocks from anywhere; files as such streams."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import Final, Protocol, cast

from necropsy_parsers.source.notes import Note

BLOCK: Final = 256 << 10  # bytes read at once where nobody asked for more

# A file found in a folder may be swapped for a FIFO before it is opened: do not wait for a writer.
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)

_FAR: Final = 1 << 62  # a position behind the end of any file; forged headers name larger ones


class Readable(Protocol):
    """An unbuffered binary file."""

    def read(self, size: int, /) -> bytes | None:
        """At most `size` bytes, b"" at the end, None when a non-blocking pipe has none yet."""


class ByteStream:
    """Exact reads over an iterator of blocks. `position` counts the bytes handed out or skipped."""

    def __init__(
        self,
        blocks: Iterable[bytes],
        *,
        consumed: Callable[[], int] | None = None,
        close: Callable[[], None] | None = None,
        jump: Callable[[int], None] | None = None,
    ) -> None:
        """`consumed`: bytes of the file behind it that were read; `jump`: how to skip without reading."""
        self.position = 0
        self._blocks = iter(blocks)
        self._block = b""
        self._at = 0
        self._consumed = consumed
        self._close = close
        self._jump = jump

    def read(self, count: int) -> bytes:
        """`count` bytes; fewer only at the end."""
        have = len(self._block) - self._at
        if have >= count:
            whole = not self._at and have == count
            data = self._block if whole else self._block[self._at : self._at + count]
            self._at += count
        else:
            parts = [self._block[self._at :]] if have else []
            self._block, self._at = b"", 0
            while have < count and (block := next(self._blocks, None)) is not None:
                parts.append(block)
                have += len(block)
            if have > count:
                self._block = parts[-1]
                self._at = len(self._block) - (have - count)
                parts[-1] = self._block[: self._at]
            data = parts[0] if len(parts) == 1 else b"".join(parts)
        self.position += len(data)
        return data

    def unread(self, data: bytes) -> None:
        """Put back bytes that were read last."""
        self.position -= len(data)
        if self._block.endswith(data, 0, self._at):
            self._at -= len(data)
        else:
            self._block = data + self._block[self._at :]
            self._at = 0

    def peek(self, count: int) -> bytes:
        """The next `count` bytes (fewer only at the end), without taking them."""
        data = self.read(count)
        self.unread(data)
        return data

    def skip(self, count: int) -> None:
        """Pass over `count` bytes, or over what there is."""
        buffered = min(count, len(self._block) - self._at)
        self._at += buffered
        self.position += buffered
        count -= buffered
        if self._jump and count:
            self._jump(count)
            self.position += count
            return
        while count and (data := self.read(min(count, BLOCK))):
            count -= len(data)

    def consumed(self) -> int:
        """Bytes taken so far from the file or pipe behind it."""
        return self._consumed() if self._consumed else self.position

    def close(self) -> None:
        """Release the file behind it; closing twice is fine."""
        if self._close:
            self._close()


def stretch(stream: ByteStream, length: int, block: int, short: Callable[[int], None]) -> Iterator[bytes]:
    """The next `length` bytes of `stream`, which stays open; `short(missing)` when it ends before."""
    while length:
        data = stream.read(min(block, length))
        if not data:
            short(length)
            return
        length -= len(data)
        yield data


def blocks_of(file: Readable, block: int, note: Note) -> Iterator[bytes]:
    """What `file` holds from here on. A failing disk or network ends it with an issue."""
    total = 0
    try:
        while (data := file.read(block)) != b"":
            if data is None:
                _wait_for(file)
                continue
            total += len(data)
            yield data
    except OSError as error:
        note("source/unreadable", f"reading failed after {total:,} bytes: {error.strerror or error}")


def _wait_for(file: Readable) -> None:
    """Wait until a pipe that its other user made non-blocking has data."""
    import select

    select.select([cast(FileIO, file)], [], [])


def file_stream(path: Path, note: Note, *, block: int = BLOCK, offset: int = 0) -> ByteStream:
    """The regular file `path` from byte `offset` on; empty, with an issue, where it cannot be opened."""
    try:
        file = open_regular(path)
    except OSError as error:
        note("source/unreadable", reason(error))
        return ByteStream(())
    if offset:
        file.seek(min(offset, _FAR))

    def jump(count: int) -> None:
        file.seek(min(file.tell() + count, _FAR))

    return ByteStream(blocks_of(file, block, note), close=file.close, jump=jump)


def open_regular(path: Path) -> FileIO:
    """Open a regular file for reading. Raises `OSError`, also when it is not a regular file any more."""
    descriptor = os.open(path, _FLAGS | getattr(os, "O_CLOEXEC", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file any more")
        return FileIO(descriptor, "rb")
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(descriptor)
        raise


def reason(error: OSError | ValueError) -> str:
    """Why an input cannot be opened, in words."""
    if isinstance(error, FileNotFoundError):
        return "no such file or folder"
    if isinstance(error, PermissionError):
        return "permission denied"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error)
