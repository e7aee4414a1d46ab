"""What a stream of bytes turns out to be: compressed, an archive, or the bytes themselves."""

from __future__ import annotations

import re
from typing import Final

from necropsy_parsers.source.codec import codec_of
from necropsy_parsers.source.decompress import Expander, Replay
from necropsy_parsers.source.limits import Budget
from necropsy_parsers.source.notes import Note
from necropsy_parsers.source.stream import ByteStream

HEAD: Final = 512  # bytes that tell everything; a tar header is as long

_ZIP: Final = re.compile(rb"PK(?:\x03\x04|\x05\x06)")
_UNREAD: Final = (
    (re.compile(rb"7z\xbc\xaf\x27\x1c"), "a 7-Zip archive"),
    (re.compile(rb"Rar!\x1a\x07"), "a RAR archive"),
    (re.compile(rb"\x04\x22\x4d\x18"), "LZ4 data"),
    (re.compile(rb"\x1f\x9d"), "`compress` (.Z) data"),
    (re.compile(rb"\xff\x06\x00\x00sNaPpY"), "Snappy data"),
)
# Containers that are one thing to their users: torch.save, torch.export and TorchScript files, numpy's .npz.
_CONTAINER: Final = re.compile(
    rb"(?:^|/)(?:data\.pkl|constants\.pkl|archive_format|archive_version|\.format_version|byteorder)$|\.npy$"
)


def unpack(
    stream: ByteStream, note: Note, budget: Budget, *, replay: Replay | None = None, resume: bool = True
) -> ByteStream:
    """`stream` decompressed where its first bytes say that it is compressed, else as it is."""
    codec = codec_of(stream.peek(16))
    if codec is None:
        return stream
    expander = Expander(codec, stream, note, replay=replay, resume=resume)
    blocks = budget.watch(expander.blocks(), stream.consumed, note)
    return ByteStream(blocks, consumed=stream.consumed, close=stream.close)


def is_zip(head: bytes) -> bool:
    """Is it a zip archive whose members are of interest each (and not a checkpoint)?"""
    if not _ZIP.match(head):
        return False
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")] if head.startswith(b"PK\x03\x04") else b""
    return not _CONTAINER.search(name)


def is_tar(head: bytes) -> bool:
    """Is it a tar header? Its checksum says so; of a cut one, the word `ustar`."""
    if len(head) < HEAD:
        return head[257:262] == b"ustar"
    try:
        stated = int(head[148:156].strip(b" \0"), 8)
    except ValueError:
        return False
    return stated == sum(head[:148]) + 8 * ord(" ") + sum(head[156:HEAD])


def why_not_opened(head: bytes) -> str:
    """What a source's bytes are when they are a container nobody opened, or "" (most often)."""
    for magic, title in _UNREAD:
        if magic.match(head):
            return f"{title}, which is not opened: unpack it first"
    if is_tar(head) or is_zip(head):
        return "an archive inside an archive or inside a compressed file is not opened: unpack it first"
    if codec := codec_of(head):
        return f"compressed twice: {codec.title} data inside is not decompressed"
    return ""
