r"""Layers of TensorRT engines, as the engine inspector writes them in JSON.

    {"Layers": ["Conv_0 + Relu_1", "MaxPool_2"], "Bindings": ["image", "logits"]}
    {"Layers": [{"Name": "Conv_0 + Relu_1", "LayerType": "CaskConvolution", "Inputs": [{"Name": "image",
    "Location": "Device", "Dimensions": [8, 3, 224, 224], "Format/Datatype": "Row major linear FP32"}], ..}], ..}

Written by `trtexec --exportLayerInfo`, `IEngineInspector.get_engine_information` and Torch-TensorRT's `get_layer_info`,
TensorRT 8.2 to 11.x and TensorRT for RTX. Only engines built with `--profilingVerbosity=detailed` tell types, formats
and tactics; others tell names. Engines with several optimization profiles list each layer once a profile: the first
is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Record

if TYPE_CHECKING:
    from necropsy_parsers.source import Source
    from necropsy_parsers.tensorrt.json_items import Document
    from necropsy_parsers.tensorrt.records import EngineTensor

NAME: Final = "trt_layers"
TITLE: Final = "Layers of TensorRT engines (JSON)"
PRIORITY: Final = 230
SAMPLES: Final = (
    '{"Layers": ["Conv_0 + Relu_1", "MaxPool_2"], "Bindings": ["image", "logits"]}',
    '{"Layers": [{"Name": "Conv_0", "LayerType": "CaskConvolution", "Inputs": [], "Outputs": []}]}',
    '[{"Name": "fc_myl0_1", "LayerType": "gemm", "Inputs": [], "Outputs": [], "TacticName": ""}]',
)
MAX_LAYERS: Final = 200_000
MAX_LINES_BEFORE: Final = 5  # a shell's or logger's words before the JSON; behind more of them it is part of a log
_LIST: Final = re.compile(rb'"Layers"\s*:\s*\[')
_LAYER: Final = re.compile(rb'"LayerType"\s*:\s*"')


def sniff(head: bytes, name: str) -> str | None:
    """Claims JSON with the keys of the engine inspector."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] not in (b"{", b"["):
        return None
    if text.count(b"\n", 0, max(text.find(b"{"), 0)) > MAX_LINES_BEFORE:
        return None
    if (m := _LIST.search(text)) is not None and m.start() < 4_096:
        items = text[m.end() :].lstrip()
        if _LAYER.search(items) or b'"Bindings"' in text or b'"I/O Tensors"' in text or items[:1] in (b'"', b"]"):
            return "JSON with the key Layers, as the engine inspector writes it"
        if re.match(rb'\{\s*"Name"\s*:', items):
            return "JSON with a list of named Layers"
    if _LAYER.search(text) and re.search(rb'"(?:Inputs|TacticName|TacticValue|ParameterType)"', text):
        return "JSON with layers of a TensorRT engine"
    return None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """The layers of each engine, and the engine behind them."""
    from necropsy_parsers.tensorrt.json_items import Document

    document = Document(source, issues)
    starts = [m.end() for m in re.finditer(r'"Layers"\s*:\s*\[', document.text)][:64]
    bare = not starts
    if bare:  # a list of layers, or layers one behind the other (get_layer_information)
        first = document.text.find("{")
        starts = [max(first if document.text.lstrip()[:1] == "{" else document.list_start(""), 0)]
    read = 0
    for number, start in enumerate(starts, 1):
        engine = source.name if number == 1 else f"{source.name}#{number}"
        for record in _engine(document, start, engine, seq, bare):
            read += 1
            yield record
    if not read:
        issues.add("engine/no-layers", source.name)


def _engine(document: Document, start: int, engine: str, seq: int, bare: bool) -> Iterator[Record]:
    from necropsy_parsers.tensorrt import layers
    from necropsy_parsers.tensorrt.records import Engine

    whole = document.anchor(start, start)
    first_of: set[str] = set()
    count, detail = 0, "names"
    for item in document.items(start):
        if isinstance(item.value, list):  # a list of lists: get_layer_info of several engines
            continue
        layer = layers.layer(item.value, item.anchor, engine, count, seq + item.anchor.start)
        if layer is None or count >= MAX_LAYERS:
            continue
        plain, profile = layers.profile_of(layer.name)
        if profile and plain in first_of:
            continue
        first_of.add(layer.name)
        if layer.detail == "full":
            detail = "full"
        count += 1
        yield layer
    if not count:
        return
    io = document.value("I/O Tensors")
    bindings = document.value("Bindings")
    schema = "11" if isinstance(io, list) else "8" if isinstance(bindings, list) else ""
    sides: dict[str, list[EngineTensor]] = {}
    for entry in io if isinstance(io, list) else ():
        mode = str(entry.get("IOMode", "")).lower() if isinstance(entry, dict) else ""
        sides.setdefault(mode, []).extend(layers.tensors([entry]))
    names = [b for b in bindings if isinstance(b, str)] if isinstance(bindings, list) else []
    inputs, outputs = tuple(sides.get("input", ())), tuple(sides.get("output", ()))
    names = names or [t.name for t in (*inputs, *outputs)]
    yield Engine(
        whole, engine, count, detail, schema=schema, bindings=tuple(names), inputs=inputs, outputs=outputs, seq=seq
    )
