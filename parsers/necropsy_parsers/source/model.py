"""One input: a name for the report, and its decompressed bytes in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from necropsy_parsers.source.content import HEAD, why_not_opened
from necropsy_parsers.source.notes import Notes
from necropsy_parsers.source.stream import ByteStream

CHUNK = 4 << 20


class Source:
    """A file, an archive member or standard input, ready to be read.

    `name`: as given, `archive!member`, or `-`; safe to print and unique within a call of `open_sources`.
    `path`: the file on disk that holds it (for a member: the archive), None for pipes.
    `size`: bytes it takes on disk, None when not known.
    `consumed`: of these, how many were read so far (for a progress bar).
    `read`: decompressed bytes that `chunks` delivered so far.

    A source in a file can be read again and again. Standard input can be read once. Members of a
    compressed tar (and of any archive on standard input) should be read before the next source is
    asked for: later it takes decompressing the archive from its beginning, and on standard input
    they are gone, which is reported as `source/unreadable`.
    """

    def __init__(
        self,
        name: str,
        path: Path | None,
        size: int | None,
        start: Callable[[int], ByteStream],
        notes: Notes,
        *,
        lasting: bool = True,
    ) -> None:
        """`start(block)` opens the bytes; `lasting` says that it can do so at any time and cheaply."""
        self.name = name
        self.path = path
        self.size = size
        self.consumed = 0
        self.read = 0
        self._start = start
        self._notes = notes
        self._lasting = lasting
        self._opened: ByteStream | None = None

    def __repr__(self) -> str:
        return f"Source({self.name!r})"

    @property
    def lasting(self) -> bool:
        """Whether it can be read again at any time and cheaply."""
        return self._lasting

    def head(self, n: int = 65536) -> bytes:
        """The first `n` decompressed bytes (fewer only if there are no more); `chunks` yields them again."""
        if self._lasting:
            with closing(self._start(n)) as stream:
                data = stream.read(n)
        else:
            self._opened = self._opened or self._start(CHUNK)
            data = self._opened.peek(n)
        self._judge(data)
        return data

    def chunks(self, size: int = CHUNK) -> Iterator[bytes]:
        """All decompressed bytes in order, `size` at a time (the last chunk may be shorter)."""
        stream, self._opened = self._opened or self._start(size), None
        self.read = 0
        with closing(stream):
            self._judge(stream.peek(HEAD))
            while data := stream.read(size):
                self.read += len(data)
                self.consumed = stream.consumed()
                yield data
            self.consumed = stream.consumed()

    def close(self) -> None:
        """Let go of what `head` left open. Only needed for sources that are not read."""
        if self._opened:
            self._opened.close()
            self._opened = None

    def _judge(self, head: bytes) -> None:
        if not head and not self._notes.kinds:
            self._notes("source/empty", "")
        elif why := why_not_opened(head[:HEAD]):
            self._notes("source/skipped-member", why)
