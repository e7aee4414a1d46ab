"""Layers that only change a tensor's type or layout, or copy it, and why."""

from __future__ import annotations

from collections import Counter

from necropsy_parsers.grammars import layer_name
from necropsy_parsers.tensorrt.records import EngineLayer

from necropsy.evidence._trt_engines import EngineView
from necropsy.rules.tensorrt._claims import FLOATS

_WHY = {
    "QDQ": "quantization",
    "CAST": "casts of the model",
    "SLICE": "slices",
    "CONCAT": "concatenations",
    "SHUFFLE": "reshapes",
    "REFORMAT": "a neighbour's layout",
}


def working(view: EngineView) -> list[int]:
    """Layers that move data and cost something: no `NoOp`, no slice, and none that was measured to take no time."""
    return [
        i
        for i, t in enumerate(view.layers)
        if t.layer.moves
        and t.layer.type != "NoOp"
        and t.layer.reformat_origin.upper() != "SLICE"
        and (t.ms is None or t.ms > 0)
    ]


def changes_type(layer: EngineLayer) -> bool:
    """Whether the layer's output has another type than its input."""
    taken, given = {t.dtype for t in layer.inputs if t.dtype}, {t.dtype for t in layer.outputs if t.dtype}
    return bool(taken) and bool(given) and taken != given


def changes_floats(layer: EngineLayer) -> bool:
    """Whether it converts between floating-point types."""
    types = {t.dtype for t in (*layer.inputs, *layer.outputs) if t.dtype}
    return changes_type(layer) and types <= FLOATS


def at_border(view: EngineView, index: int) -> str:
    """`input` or `output` where the layer converts the network's own tensor, else ""."""
    layer = view.layers[index].layer
    border = view.network_tensors
    side = layer_name.parse(layer.name).side
    if side.startswith("network"):
        return side.removeprefix("network ")
    if any(t.name in border for t in layer.inputs):
        return "input"
    return "output" if any(t.name in border for t in layer.outputs) else ""


def why(view: EngineView, indices: list[int]) -> list[str]:
    """Why the layers are there, most frequent first: `a neighbour's layout (4)`."""
    told: Counter[str] = Counter()
    for i in indices:
        layer = view.layers[i].layer
        if at_border(view, i):
            told["the network's input or output"] += 1
        else:
            told[_WHY.get(layer.reformat_origin.upper(), layer.reformat_origin.lower() or "not told")] += 1
    return [f"{name} ({number})" for name, number in told.most_common()]
