"""ONNX models to the same model without weights: a stream of protobuf fields, of which large payloads are passed over.

A model of 2 GB holds some megabytes of graph. Fields are copied as they are, except for data of tensors above `SMALL`
bytes, which is skipped without being read where the input allows it. Field numbers are those of onnx.proto, which does
not change them. What is no protobuf ends in `Damaged`; depth, sizes and counts are bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from necropsy_parsers.source.stream import ByteStream

SMALL: Final = 4_096  # bytes of a tensor that are kept: scales and zero points of Q/DQ, shapes, constants
MAX_KEPT: Final = 256 << 20  # bytes of a graph without weights
MAX_FIELD: Final = 8 << 20  # bytes of one text field
WHOLE: Final = 32 << 10  # bytes of a node or attribute that is copied as it is: its tensors cannot be large
MAX_DEPTH: Final = 24  # graphs within graphs (If, Loop)

# Message -> field -> message of that field; other fields are copied. (onnx/onnx.proto, IR version 3 to 13)
_MESSAGES: Final[dict[str, dict[int, str]]] = {
    "Model": {7: "Graph", 25: "Function"},
    "Graph": {1: "Node", 5: "Tensor", 15: "Sparse"},
    "Function": {7: "Node", 11: "Attribute"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 22: "Sparse", 23: "Sparse"},
    "Sparse": {1: "Tensor", 2: "Tensor"},
    "Tensor": {},
}
_DATA: Final = {  # large payloads, which are left out: of tensors their data, of attributes their lists
    "Tensor": frozenset({4, 5, 6, 7, 9, 10, 11}),
    "Attribute": frozenset({4, 7, 8, 9}),
}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Damaged(Exception):
    """The input is no protobuf, ends too early, or is beyond all bounds."""


class Slimmer:
    """One pass over a model; `left_out` counts bytes of payloads that were passed over."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._kept = 0
        self.left_out = 0

    def model(self) -> bytes:
        """The model's bytes without weights. Raises `Damaged`."""
        return self._message("Model", None, 0)

    def _message(self, kind: str, length: int | None, depth: int) -> bytes:
        """A message of that length (None: to the end of the input), without weights."""
        if depth > MAX_DEPTH:
            raise Damaged("nested too deeply")
        end = None if length is None else self._stream.position + length
        fields, payload = _MESSAGES.get(kind, {}), _DATA.get(kind, frozenset())
        out = bytearray()
        while end is None or self._stream.position < end:
            key = self._varint(at_end=end is None)
            if key is None:
                break
            number, wire = key >> 3, key & 7
            if wire == _BYTES:
                size = self._varint() or 0
                if end is not None and self._stream.position + size > end:
                    raise Damaged("a field is longer than its message")
                if number in payload and size > SMALL:
                    self._skip(size)
                    continue
                inner = fields.get(number)
                plain = inner is None or size <= (WHOLE if inner in ("Node", "Attribute") else SMALL)
                data = self._read(size) if plain or inner is None else self._message(inner, size, depth + 1)
                out += _encoded(key) + _encoded(len(data)) + data
            elif wire == _VARINT:
                out += _encoded(key) + _encoded(self._varint() or 0)
            elif wire in (_FIXED64, _FIXED32):
                out += _encoded(key) + self._read(8 if wire == _FIXED64 else 4)
            else:
                raise Damaged(f"wire type {wire}")
            if len(out) > MAX_KEPT:
                raise Damaged("more than 256 MiB without weights")
        if end is not None and self._stream.position != end:
            raise Damaged("a field crosses the end of its message")
        return bytes(out)

    def _read(self, size: int) -> bytes:
        if size > MAX_FIELD:
            raise Damaged("a field of more than 8 MiB that is no weight")
        self._kept += size
        if self._kept > MAX_KEPT:
            raise Damaged("more than 256 MiB without weights")
        data = self._stream.read(size)
        if len(data) != size:
            raise Damaged("it ends too early")
        return data

    def _skip(self, size: int) -> None:
        before = self._stream.position
        self._stream.skip(size - 1)
        if len(self._stream.read(1)) != 1 or self._stream.position - before != size:
            raise Damaged("it ends too early")
        self.left_out += size

    def _varint(self, *, at_end: bool = False) -> int | None:
        value = shift = 0
        while True:
            byte = self._stream.read(1)
            if not byte:
                if at_end and not shift:
                    return None
                raise Damaged("it ends too early")
            value |= (byte[0] & 0x7F) << shift
            if byte[0] < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF
            shift += 7
            if shift > 63:
                raise Damaged("a number of more than ten bytes")


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
