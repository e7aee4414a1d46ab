"""Two engines of one network: which layers of one are which of the other."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from typing import Final

from msgspec import Struct

from necropsy_parsers.tensorrt.records import EngineLayer

from necropsy.evidence._trt_engines import EngineView
from necropsy.provenance.engine_layers import LayerPlaces
from necropsy.rules.tensorrt._claims import QUANTIZED, described
from necropsy.rules.tensorrt._products import channels, is_product

ALIKE: Final = 0.6  # share of layers with the same name: two builds of one model
SAME_WORK: Final = 0.8  # share of convolutions and products with the same sizes: one network in two precisions
MAX_LAYERS: Final = 3_000  # above, engines are not laid side by side
_NUMBER: Final = re.compile(r"_\d+\b")


class Difference(Struct, frozen=True):
    """A stretch in which two engines differ: layers of each, in their order, with their times."""

    before: list[int]
    after: list[int]


def key(layer: EngineLayer) -> str:
    """The layer's name without the numbers that exporters count up."""
    return _NUMBER.sub("", layer.name)


def alike(a: EngineView, b: EngineView) -> bool:
    """Whether two engines are builds of one model."""
    left, right = Counter(key(t.layer) for t in a.layers), Counter(key(t.layer) for t in b.layers)
    return sum((left & right).values()) >= ALIKE * max(len(a.layers), len(b.layers))


def same_work(a: EngineView, b: EngineView) -> bool:
    """Whether two engines do the same convolutions and products, whatever their layers are called."""
    left, right = _work(a), _work(b)
    return bool(left) and sum((left & right).values()) >= SAME_WORK * max(sum(left.values()), sum(right.values()))


def _work(view: EngineView) -> Counter[tuple[object, ...]]:
    return Counter((*channels(t.layer), t.layer.shape.kernel[:2]) for t in view.layers if is_product(t.layer))


def differences(a: EngineView, b: EngineView) -> list[Difference]:
    """Stretches that differ in layers, types or time, the largest difference of time first."""
    keys = [[key(t.layer) for t in v.layers] for v in (a, b)]
    found: list[Difference] = []
    for tag, i, j, k, m in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if tag != "equal":
            found.append(Difference(list(range(i, j)), list(range(k, m))))
            continue
        for left, right in zip(range(i, j), range(k, m), strict=True):
            if _types(a.layers[left].layer) != _types(b.layers[right].layer):
                found.append(Difference([left], [right]))
    return sorted(found, key=lambda d: -abs((a.ms(d.before) or 0.0) - (b.ms(d.after) or 0.0)))


def lost(a: EngineView, b: EngineView, d: Difference) -> float:
    """Milliseconds that the first engine takes longer in a stretch."""
    return (a.ms(d.before) or 0.0) - (b.ms(d.after) or 0.0)


def _types(layer: EngineLayer) -> tuple[str, ...]:
    return (*(t.dtype for t in layer.inputs), "->", *(t.dtype for t in layer.outputs))


def quantized(view: EngineView) -> bool:
    """Whether a third of the engine's products are quantized, at least."""
    products = [t.layer for t in view.layers if is_product(t.layer)]
    low = sum(bool(x.inputs) and x.inputs[0].dtype in QUANTIZED for x in products)
    return bool(products) and 3 * low >= len(products)


def changed(slow: EngineView, fast: EngineView, d: Difference, places: LayerPlaces) -> str:
    """`Conv_284 (layer4[1].conv2): INT8+FP32 -> FP32, 0.070 ms instead of INT8 -> INT8, 0.029 ms`."""
    left = "; ".join(described(slow, places, i) for i in d.before[:4]) or "nothing"
    if len(d.before) == 1 and len(d.after) == 1:
        right = described(fast, places, d.after[0]).split(": ", 1)[-1]
    else:
        right = "; ".join(described(fast, places, i) for i in d.after[:4]) or "nothing"
    return f"{left} instead of {right}"
