"""ONNX models: the graph, where its nodes come from, and what is quantized.

    08 0a 12 07 70 79 74 6f 72 63 68    ir_version 10, producer_name "pytorch": the head of a protobuf

Read with the `onnx` package (extra `tensorrt`), after weights were taken out: those are never in memory, and files
with external data are not opened. Names of nodes, and in exports of dynamo their `pkg.torch.onnx` metadata, tell
modules and lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor, Record

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "onnx_model"
TITLE: Final = "ONNX models"
PRIORITY: Final = 150
SAMPLES: Final = ("\x08\x0a\x12\x07pytorch\x1a\x062.13.0",)
_KEYS: Final = frozenset({0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42})  # fields 2 to 8 of ModelProto


def sniff(head: bytes, name: str) -> str | None:
    """Claims protobufs that begin as a ModelProto: ir_version (3 to 30), then a producer, an opset or the graph."""
    if len(head) > 3 and head[0] == 0x08 and 3 <= head[1] <= 30 and head[2] in _KEYS:
        plain = name.lower().endswith((".onnx", ".onnx.gz", ".onnx.xz", ".onnx.zst"))
        if plain or _named(head):
            return "the head of an ONNX model"
    return "named .onnx" if name.lower().endswith(".onnx") and b"\x00" in head[:4_096] else None


def _named(head: bytes) -> bool:
    """Whether the producer's name is printable text and something follows it that a model may hold."""
    size = head[3]
    text = head[4 : 4 + size]
    if head[2] not in (0x12, 0x3A, 0x42) or (head[2] == 0x12 and not (len(text) == size and text.isascii())):
        return False
    return head[2] != 0x12 or (text.decode("ascii").isprintable() and head[4 + size : 5 + size] in _FOLLOWING)


_FOLLOWING: Final = {bytes([k]) for k in _KEYS}


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """The nodes, then the model."""
    try:
        import onnx
    except ImportError:
        issues.add("onnx/no-reader", source.name)
        return
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    from necropsy_parsers.onnxmodel.reading import records
    from necropsy_parsers.onnxmodel.slim import Damaged, Slimmer
    from necropsy_parsers.source.stream import ByteStream

    slimmer = Slimmer(ByteStream(source.chunks()))
    try:
        model = onnx.ModelProto.FromString(slimmer.model())
    except (Damaged, DecodeError, RecursionError) as error:
        issues.add("onnx/damaged", source.name, detail=str(error)[:200])
        return
    if not model.graph.node and not model.graph.output:
        issues.add("onnx/damaged", source.name, detail="it holds no graph")
        return
    anchor = Anchor(source.name, 0, source.read, 1, f"{model.producer_name} {model.producer_version}".strip())
    yield from records(model, anchor, slimmer.left_out, seq)
