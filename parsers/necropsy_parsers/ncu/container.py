"""The frames of a `.ncu-rep`: which launches it holds, of which process, and their Python stacks.

    NVR\\0  u32 length  file header        u32 length  block header  payload of the block        ...
    block header (protobuf): 1 sources, 2 results, 5 bytes of payload, 6 process {1 id, 2 host, 3 program}
    payload: u32 length, message; of a result 6 function, 7 demangled name, 10 grid, 11 block, 32 Python stack

The layout is that of the `.proto` files which Nsight Compute ships in `extras/FileFormat` (2019.1 to 2026.3). Only what
`ncu-report` has no call for is read here (checked with 2026.3.1), and where the file ends too early. Frames are skipped
over, not decoded: 140 MB take a third of a second.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy_parsers.ncu.records import Dims
from necropsy_parsers.records import Frame

MAGIC: Final = b"NVR\x00"
MAX_FRAMES: Final = 200  # of one Python stack
MAX_RESULTS: Final = 100_000
_LENGTH: Final = struct.Struct("<I")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Buffer = bytes | memoryview


class Damage(ValueError):
    """The bytes are not what they should be."""


class Stub(Struct, frozen=True):
    """A launch as its frame tells it; `stack` with the innermost frame last."""

    function: str
    kernel: str
    process: int | None
    program: str
    host: str
    grid: Dims | None
    block: Dims | None
    stack: tuple[Frame, ...]


class Contents(Struct, frozen=True):
    """The launches of a report in order; `cut` tells that the file ends inside a block, `whole` where that begins."""

    launches: list[Stub]
    cut: bool
    whole: int = 0


def read(data: Buffer) -> Contents:
    """The frames of a report. Raises `Damage` where the bytes are no frames."""
    view = memoryview(data)
    if bytes(view[:4]) != MAGIC:
        raise Damage("no Nsight Compute report")
    launches: list[Stub] = []
    at, end = 8 + _u32(view, 4), len(view)
    while at + 4 <= end:
        block = at
        header = view[at + 4 : at + 4 + _u32(view, at)]
        at += 4 + _u32(view, at)
        if at > end:
            return Contents(launches, True, block)
        results = payload = 0
        process: tuple[int | None, str, str] = (None, "", "")
        for field, value in _fields(header):
            if field == 2 and isinstance(value, int):
                results = value
            elif field == 5 and isinstance(value, int):
                payload = value
            elif field == 6 and not isinstance(value, int):
                process = _process(value)
        if at + payload > end:
            return Contents(launches, True, block)
        if results:
            launches += _results(view[at : at + payload], results, process)
        at += payload
        if len(launches) > MAX_RESULTS:
            raise Damage("more launches than a report can hold")
    return Contents(launches, at != end, at)


def _results(payload: memoryview, results: int, process: tuple[int | None, str, str]) -> Iterator[Stub]:
    """The results of a block; sources stand in blocks of their own."""
    at = 0
    while at + 4 <= len(payload) and results:
        size = _u32(payload, at)
        yield _stub(payload[at + 4 : at + 4 + size], process)
        at, results = at + 4 + size, results - 1


def _stub(body: memoryview, process: tuple[int | None, str, str]) -> Stub:
    words: dict[int, memoryview] = {}
    number: int | None = None
    for field, value in _fields(body):
        if isinstance(value, int):
            if field == 1:
                number = value
        elif field in (6, 7, 10, 11, 32):
            words.setdefault(field, value)
    pid, host, program = process
    return Stub(
        _text(words.get(6)),
        _text(words.get(7)),
        pid if pid is not None else number,
        program.replace("\\", "/").rsplit("/", 1)[-1],
        host,
        _dims(words.get(10)),
        _dims(words.get(11)),
        _stack(words.get(32)),
    )


def _process(body: memoryview) -> tuple[int | None, str, str]:
    pid: int | None = None
    host = program = ""
    for field, value in _fields(body):
        if field == 1 and isinstance(value, int):
            pid = value
        elif field == 2 and not isinstance(value, int):
            host = _text(value)
        elif field == 3 and not isinstance(value, int):
            program = _text(value)
    return pid, host, program


def _dims(body: memoryview | None) -> Dims | None:
    if body is None:
        return None
    found = {field: value for field, value in _fields(body) if isinstance(value, int)}
    return (found[1], found[2], found[3]) if {1, 2, 3} <= found.keys() else None


def _stack(body: memoryview | None) -> tuple[Frame, ...]:
    """The frames of a Python stack, which stand with the innermost first."""
    if body is None:
        return ()
    frames: list[Frame] = []
    for field, value in _fields(body):
        if field != 1 or isinstance(value, int) or len(frames) >= MAX_FRAMES:
            continue
        file = function = ""
        line: int | None = None
        for key, part in _fields(value):
            if key == 3 and not isinstance(part, int):
                file = _text(part)
            elif key == 4 and not isinstance(part, int):
                function = _text(part)
            elif key == 5 and isinstance(part, int):
                line = part
        if file:
            frames.append(Frame(file, line, function))
    return tuple(reversed(frames))


def _text(value: memoryview | None) -> str:
    return "" if value is None else bytes(value[:65536]).decode("utf-8", "replace")


def _u32(view: memoryview, at: int) -> int:
    if at + 4 > len(view):
        raise Damage("a length is cut off")
    return int(_LENGTH.unpack_from(view, at)[0])


def _fields(body: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a protobuf message at its first level: integers, and bytes not looked into."""
    at, end = 0, len(body)
    while at < end:
        key, at = _varint(body, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(body, at)
            yield key >> 3, value
        elif kind == _BYTES:
            size, at = _varint(body, at)
            if at + size > end:
                raise Damage("a field is longer than its message")
            yield key >> 3, body[at : at + size]
            at += size
        elif kind == _FIXED64:
            at += 8
        elif kind == _FIXED32:
            at += 4
        else:
            raise Damage("no protobuf message")


def _varint(body: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(body) and shift < 70:
        byte = body[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise Damage("a number is cut off")
