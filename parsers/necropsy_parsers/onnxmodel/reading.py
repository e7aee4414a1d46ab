"""A decoded ONNX model to records."""

from __future__ import annotations

import ast
import math
import re
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from necropsy_parsers.numbers import natural
from necropsy_parsers.onnxmodel.records import OnnxModel, OnnxNode, Quantization
from necropsy_parsers.records import Anchor, Frame, Record

MAX_NODES: Final = 500_000
MAX_FRAMES: Final = 64
_FRAME: Final = re.compile(
    r'File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?(?:\n(?P<text>[^\n]*))?'
)
_SCOPES: Final = "pkg.torch.onnx.name_scopes"
_STACK: Final = "pkg.torch.onnx.stack_trace"
_KEPT: Final = frozenset({"training_mode", "group", "axis", "keepdims", "epsilon", "momentum"})
_TYPES: Final = {
    1: "fp32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool", 10: "fp16",
    11: "fp64", 12: "uint32", 13: "uint64", 16: "bf16", 17: "fp8", 18: "fp8", 19: "fp8", 20: "fp8", 21: "uint4",
    22: "int4", 23: "fp4",
}  # fmt: skip


def records(model: Any, anchor: Anchor, left_out: int, seq: int) -> Iterator[Record]:
    """The nodes of the graph and of its subgraphs, then the model."""
    operations: Counter[str] = Counter()
    constants = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:  # older exports hold constants in nodes
        if node.op_type == "Constant" and node.output and (value := _constant(node)) is not None:
            constants[node.output[0]] = value
    for index, (node, graph) in enumerate(_nodes(model.graph)):
        operations[node.op_type] += 1
        if index < MAX_NODES:
            yield _node(node, graph, constants, anchor, index, seq)
    yield OnnxModel(
        anchor,
        model.producer_name,
        model.producer_version,
        model.ir_version,
        {o.domain: o.version for o in model.opset_import},
        sum(operations.values()),
        dict(operations.most_common()),
        {p.key[:200]: p.value[:1_000] for p in list(model.metadata_props)[:200]},
        len(model.graph.initializer),
        dict(Counter(_TYPES.get(t.data_type, "") for t in model.graph.initializer)),
        left_out,
        tuple(_value(v) for v in model.graph.input),
        tuple(_value(v) for v in model.graph.output),
        seq=seq,
    )


def _nodes(graph: Any, path: str = "") -> Iterator[tuple[Any, str]]:
    for node in graph.node:
        yield node, path
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node and path.count("/") < 24:
                    yield from _nodes(inner, f"{path}/{node.name or node.op_type}")


def _constant(node: Any) -> Any:
    return next((a.t for a in node.attribute if a.name == "value" and a.HasField("t")), None)


def _node(node: Any, graph: str, constants: dict[str, Any], anchor: Anchor, index: int, seq: int) -> OnnxNode:
    told = {p.key: p.value for p in node.metadata_props} if hasattr(node, "metadata_props") else {}
    if not told.get(_STACK) and node.doc_string:  # exports of torch 1.x with `verbose=True`
        told[_STACK] = node.doc_string
    quantization = _quantization(node, constants) if node.op_type in ("QuantizeLinear", "DequantizeLinear") else None
    return OnnxNode(
        Anchor(anchor.input, anchor.start, anchor.end, 1, f"{node.op_type} {node.name}"[:200]),
        anchor.input,
        index,
        node.name,
        node.op_type,
        node.domain,
        tuple(node.input),
        tuple(node.output),
        _scopes(told.get(_SCOPES, "")),
        _stack(told.get(_STACK, "")),
        sum(name in constants for name in node.input),
        {a.name: _number(a) for a in node.attribute if a.name in _KEPT},
        quantization,
        seq=seq + index,
    )


def _number(attribute: Any) -> int | float | str:
    if attribute.type == 1:
        return float(attribute.f)
    if attribute.type == 3:
        return str(attribute.s.decode("utf-8", "replace"))
    return int(attribute.i)


def _scopes(text: str) -> tuple[str, ...]:
    """Modules by path of `['', 'stem', 'stem.0', 'conv2d']`: the last entry is the node."""
    if not text or len(text) > 10_000:
        return ()
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ()
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        return ()
    return tuple(v for v in value[:-1] if v)


def _stack(text: str) -> tuple[Frame, ...]:
    frames = []
    for m in _FRAME.finditer(text[:100_000]):
        frames.append(Frame(m["file"], natural(m["line"]), (m["function"] or "").strip(), (m["text"] or "").strip()))
    return tuple(frames[:MAX_FRAMES])


def _quantization(node: Any, constants: dict[str, Any]) -> Quantization:
    scale = constants.get(node.input[1]) if len(node.input) > 1 else None
    zero = constants.get(node.input[2]) if len(node.input) > 2 else None
    axis = next((int(a.i) for a in node.attribute if a.name == "axis"), None)
    dtype = next((_TYPES.get(int(a.i), "") for a in node.attribute if a.name == "output_dtype"), "")
    dtype = _TYPES.get(zero.data_type, "") if zero is not None else dtype
    values = _floats(scale) if scale is not None else []
    if not values:
        count = math.prod(scale.dims) if scale is not None and len(scale.dims) < 8 else 0
        return Quantization(None, min(count, 1 << 40), 0, axis, dtype)
    bad = sum(1 for v in values if not math.isfinite(v) or v <= 0)
    return Quantization((min(values), max(values)), len(values), bad, axis, dtype)


def _floats(tensor: Any) -> list[float]:
    """A small tensor's values; none of one whose data is not here."""
    form = {1: "f", 10: "e", 11: "d"}.get(tensor.data_type)
    if tensor.data_type == 1 and tensor.float_data:
        return [float(v) for v in tensor.float_data]
    raw = bytes(tensor.raw_data)
    if form is None or not raw or len(raw) % struct.calcsize(form):
        return []
    return [float(v) for v in struct.unpack(f"<{len(raw) // struct.calcsize(form)}{form}", raw)]


def _value(value: Any) -> tuple[str, str, tuple[str, ...]]:
    tensor = value.type.tensor_type
    dims = tuple(d.dim_param or (str(d.dim_value) if d.HasField("dim_value") else "?") for d in tensor.shape.dim)
    return value.name, _TYPES.get(tensor.elem_type, ""), dims[:32]
