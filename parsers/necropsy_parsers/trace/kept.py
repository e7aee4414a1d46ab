"""A trace that was read, kept in a file for the next time: what it says by value, its columns to be mapped.

The file is a magic number, the length of the header and the header (MessagePack), the
columns, and a checksum of all of it. It is decoded into known types only; what does not fit
them, is cut off or has another checksum counts as absent.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

import msgspec
from msgspec import Struct

from necropsy_parsers.records import UNKNOWN, Anchor
from necropsy_parsers.trace.model import Losses, Trace, TraceMeta
from necropsy_parsers.trace.parcel import Slot, blocks_of, mapped, rows_of, slots_of

_MAGIC: Final = b"NECROTR1"
_LENGTH: Final = struct.Struct("<Q")
_CHECKSUM: Final = struct.Struct("<I")
_BLOCK: Final = 1 << 20
_PAGE: Final = 64  # bytes to which the begin of the columns is aligned


class Header(Struct, frozen=True):
    """All but the columns. `key` says which trace it is of, `read` how many decompressed bytes it was."""

    key: str
    read: int
    meta: TraceMeta
    names: list[str]
    processes: list[int | str]
    threads: list[int | str]
    texts: list[bytes]
    losses: Losses
    events: int
    slots: tuple[Slot, ...]
    rows: dict[str, int]


_HEADERS: Final = msgspec.msgpack.Decoder(Header)


def size_of(trace: Trace) -> int:
    """Bytes that the trace will take, about."""
    texts = sum(map(len, trace.texts)) + sum(map(len, trace.names))
    return texts + sum(s.length * int(s.dtype[-1]) for s in slots_of(trace) if s.value is None)


def keep(trace: Trace, key: str, read: int, file: BinaryIO) -> None:
    """Write a trace. Raises OSError, and ValueError (or OverflowError) for values that cannot be written."""
    checksum = 0
    for block in _blocks(trace, key, read):
        checksum = _crc(block, checksum)
        file.write(block)
    file.write(_CHECKSUM.pack(checksum))


def _blocks(trace: Trace, key: str, read: int) -> Iterator[bytes | memoryview]:
    slots = slots_of(trace)
    header = Header(
        key, read, trace.meta, trace.names, trace.processes, trace.threads, trace.texts, trace.losses, trace.events,
        slots, rows_of(trace),
    )  # fmt: skip
    text = msgspec.msgpack.encode(header)
    begin = _MAGIC + _LENGTH.pack(len(text)) + text
    yield begin + bytes(-len(begin) % _PAGE)
    yield from blocks_of(trace, slots)


def kept(path: str, key: str) -> tuple[Trace, int] | None:
    """The trace in a file and the bytes it was read from; None if it is not there, not whole, or another one.

    Its anchor is empty: the input's name is not part of what is kept.
    """
    try:
        with open(path, "rb") as file:
            header, begin = _header(file)
            if header.key != key or not _whole(file):
                return None
        kinds = mapped(path, header.slots, header.rows, begin)
    except (OSError, ValueError, OverflowError, MemoryError, struct.error, msgspec.DecodeError, RecursionError):
        return None
    trace = Trace(
        anchor=Anchor("", 0, 0, 1),
        origin=UNKNOWN,
        seq=0,
        meta=header.meta,
        kinds=kinds,
        names=header.names,
        processes=header.processes,
        threads=header.threads,
        texts=header.texts,
        losses=header.losses,
        events=header.events,
    )
    return trace, header.read


def _header(file: BinaryIO) -> tuple[Header, int]:
    start = file.read(len(_MAGIC) + _LENGTH.size)
    (length,) = _LENGTH.unpack(start[len(_MAGIC) :])
    if not start.startswith(_MAGIC) or length > os.fstat(file.fileno()).st_size:
        raise ValueError("no kept trace")
    begin = len(start) + length
    return _HEADERS.decode(file.read(length)), begin + -begin % _PAGE


def _whole(file: BinaryIO) -> bool:
    """Whether the checksum at the end is that of all before. Read by blocks, so that it takes no memory."""
    left = file.seek(0, os.SEEK_END) - _CHECKSUM.size
    file.seek(0)
    checksum = 0
    while left > 0 and (block := file.read(min(left, _BLOCK))):
        checksum = _crc(block, checksum)
        left -= len(block)
    return file.read(_CHECKSUM.size) == _CHECKSUM.pack(checksum)


def _crc(data: bytes | memoryview, value: int) -> int:
    from isal import isal_zlib

    return isal_zlib.crc32(data, value)
