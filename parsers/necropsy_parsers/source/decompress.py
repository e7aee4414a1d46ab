"""A compressed stream -> its decompressed bytes, as many as can be had.

Members that follow each other are read as one. A cut file gives all that decodes; after
damage the reading goes on at the next member (a killed job that was restarted appends a
new gzip member to its half-written one). Each trouble is an issue.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from necropsy_parsers.source.codec import Codec, Decoder, codec_of
from necropsy_parsers.source.notes import Note
from necropsy_parsers.source.stream import ByteStream

_STEP: Final = 256 << 10  # bytes out of the decoder at once
_STEP_BLIND: Final = 32 << 10  # the same where what a failing call had decoded cannot be had again
_FEED: Final = 32 << 10  # bytes into the decoder at once
_HOLE: Final = 64  # NUL bytes in a row that make a hole
_TRAILER: Final = 8  # bytes behind gzip's compressed data: checksum and length
_MAGIC: Final = 16  # bytes that show whether another member follows
_RESUME_MOST: Final = 1000  # members after damage: data made of nothing but beginnings must not cost hours
_REPLAY_MOST: Final = 10

Replay = Callable[[int], ByteStream]  # opens the compressed stream again at this position


class Expander:
    """Decompresses `stream`, which is left just behind the last member that was read.

    With `chain` false one member is read. With `resume` true, reading goes on at the next
    member after damage, on a line of its own. `replay` makes it possible to get the bytes
    just before the damage too: the decoders lose what they had in hand.
    """

    def __init__(
        self,
        codec: Codec,
        stream: ByteStream,
        note: Note,
        *,
        replay: Replay | None = None,
        chain: bool = True,
        resume: bool = True,
    ) -> None:
        self._codec = codec
        self._stream = stream
        self._note = note
        self._replay = replay
        self._chain = chain
        self._resume = resume
        self._resumed = 0

    def blocks(self) -> Iterator[bytes]:
        """The decompressed bytes."""
        last = b""
        while True:
            member = _Member(self._codec, self._stream, _STEP if self._replay else _STEP_BLIND)
            for block in member.blocks():
                yield block
                last = block
            if member.trouble:
                if self._replay and self._resumed < _REPLAY_MOST:
                    for block in _again(self._codec, self._replay(member.start), member):
                        yield block
                        last = block
                if not self._go_on(member):
                    return
                if last and not last.endswith(b"\n"):
                    yield b"\n"
            elif not (member.ended and self._chain and self._follows()):
                if not member.ended:
                    self._note("source/truncated", self._cut(member))
                return

    def _cut(self, member: _Member) -> str:
        what = f"the {self._codec.title} data ends after {self._stream.position:,} bytes, before its end mark"
        return f"{what}; the last {member.hole:,} bytes are NUL" if member.hole else what

    def _follows(self) -> bool:
        """Is there another member? Padding with NULs is passed over, anything else reported."""
        while (head := self._stream.read(_FEED)) and not head.strip(b"\0"):
            pass
        rest = head.lstrip(b"\0")
        self._stream.unread(rest)
        if not rest:
            return False
        codec = codec_of(self._stream.peek(_MAGIC))
        if codec is not None and codec.title == self._codec.title:
            return True
        self._note("source/corrupt", f"what follows byte {self._stream.position:,} is not {self._codec.title} data")
        return False

    def _go_on(self, member: _Member) -> bool:
        """Report the damage and move on to the next member behind it, if there is one."""
        damage = f"the {self._codec.title} data is damaged near byte {self._stream.position:,} ({member.trouble})"
        if self._resumed < _RESUME_MOST and self._chain and self._resume and self._find(member):
            self._resumed += 1
            self._note("source/corrupt", f"{damage}; reading went on at byte {self._stream.position:,}")
            return True
        kind = "source/limit" if "memory" in member.trouble.lower() else "source/corrupt"
        self._note(kind, f"{damage}; nothing behind it was read")
        return False

    def _find(self, member: _Member) -> bool:
        """Put the stream at the next member's first byte, which may have been fed already."""
        member.rewind()
        while data := self._stream.read(_FEED):
            found = self._codec.starts.search(data)
            if found:
                self._stream.unread(data[found.start() :])
                return True
            if len(data) < _FEED:
                return False
            self._stream.unread(data[-_MAGIC:])
        return False


class _Member:
    """One pass of one decoder. Afterwards: `ended` properly, or the `trouble` it had."""

    def __init__(self, codec: Codec, stream: ByteStream, step: int) -> None:
        self.start = stream.position
        self.ended = False
        self.trouble = ""
        self.sent = 0  # bytes decoded
        self.hole = 0  # NUL bytes that were read but not fed
        self.fed = 0  # bytes fed, `feed` included
        self.feed = b""  # what was fed last
        self._before = b""  # and before that
        self._unfed = b""  # read from the stream, not fed
        self._codec = codec
        self._stream = stream
        self._step = step

    def blocks(self) -> Iterator[bytes]:
        """The member's bytes; the stream is then behind it, or behind what was fed at the time of the trouble."""
        decoder, errors = self._codec.new(), self._codec.errors()
        feeds = self._feeds()
        while not decoder.eof:
            data = b""
            if decoder.needs_input:
                if not (data := next(feeds, b"")):
                    yield from self._end_in(decoder, errors)
                    return
                self._before, self.feed = self.feed, data
                self.fed += len(data)
            try:
                block = decoder.decompress(data, self._step)
            except errors as error:
                self.trouble = str(error) or type(error).__name__
                return
            if block:
                self.sent += len(block)
                yield block
        self.ended = True
        self._stream.unread(decoder.unused_data + self._unfed)

    def _end_in(self, decoder: Decoder, errors: tuple[type[Exception], ...]) -> Iterator[bytes]:
        """The stream has ended, perhaps in a hole, whose first bytes can be the last of the member."""
        if not self.hole:
            return
        with contextlib.suppress(*errors):
            block = decoder.decompress(bytes(min(self.hole, _TRAILER)))
            if decoder.eof:
                self.ended = True
                yield block

    def rewind(self) -> None:
        """Put the stream back by about two feeds, but behind the member's first byte."""
        fed = self._before + self.feed
        self._stream.unread(fed[len(fed) == self.fed :] + self._unfed)

    def _feeds(self) -> Iterator[bytes]:
        """The stream in pieces; a hole waits until something comes behind it.

        A crash of the whole machine can leave a file's end as NULs, and deflate would make text of them.
        """
        while data := self._stream.read(_FEED):
            body = data.rstrip(b"\0") if self._codec.holes else data
            if len(data) - len(body) < _HOLE and (body or not self.hole):
                body = data
            if body:
                self._unfed = data
                while self.hole:
                    part = min(self.hole, _FEED)
                    self.hole -= part
                    yield bytes(part)
                self._unfed = data[len(body) :]
                yield body
            self.hole += len(data) - len(body)
            self._unfed = b""


def _again(codec: Codec, stream: ByteStream, member: _Member) -> Iterator[bytes]:
    """What a failed pass had decoded and lost: decode again, byte by byte near the damage."""
    decoder, errors = codec.new(), codec.errors()
    skip = member.sent
    safe = member.fed - len(member.feed)
    try:
        while not decoder.eof:
            data = b""
            if decoder.needs_input:
                data = stream.read(min(_FEED, safe) or 1)
                safe -= min(safe, len(data))
                if not data:
                    return
            block = decoder.decompress(data, _STEP)
            if len(block) > skip:
                yield block[skip:]
            skip -= min(skip, len(block))
    except errors:
        return  # where the first pass stopped, or a little later
    finally:
        stream.close()
