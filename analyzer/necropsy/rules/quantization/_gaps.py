"""Gaps in a quantized engine: stretches in floating point between quantized layers, with what converts for them."""

from __future__ import annotations

from msgspec import Struct

from necropsy_parsers.tensorrt.records import EngineLayer

from necropsy.evidence._trt_engines import EngineView
from necropsy.rules.tensorrt._claims import FLOATS, QUANTIZED
from necropsy.rules.tensorrt._pairs import key
from necropsy.rules.tensorrt._products import is_product


class Gap(Struct):
    """One gap: the quantized products that write floats, the float layers behind them, the layers that convert.

    `stops` are the first layers that take floats and keep them: for want of a quantized input there the gap is there.
    """

    writers: list[int]
    floats: list[int]
    converts: list[int]
    stops: list[int]

    @property
    def layers(self) -> list[int]:
        """All layers of the gap in their order."""
        return sorted({*self.writers, *self.floats, *self.converts})


def gaps(view: EngineView) -> list[Gap]:
    """The gaps of an engine, in its order. What a quantized product writes for the network's output is none."""
    if "gaps" not in view.noted:
        view.noted["gaps"] = _gaps(view)
    found: list[Gap] = view.noted["gaps"]
    return found


def _gaps(view: EngineView) -> list[Gap]:
    kinds = [_kind(t.layer) for t in view.layers]
    outputs = _to_output(view, kinds)
    writes_floats = [
        i
        for i, t in enumerate(view.layers)
        if is_product(t.layer) and kinds[i] == "quantized" and _floats(t.layer) and i not in outputs
    ]
    found: list[Gap] = []
    known: set[int] = set()
    for start in writes_floats:
        if start not in known:
            found.append(_gap(view, kinds, start, outputs))
            known |= set(found[-1].writers)
    return _merged(found)


def conversions(view: EngineView) -> list[int]:
    """Layers that only quantize or dequantize, and are not at the network's border."""
    kinds = [_kind(t.layer) for t in view.layers]
    border = view.network_tensors
    return [
        i
        for i, t in enumerate(view.layers)
        if kinds[i] == "converts"
        and not any(x.name in border for x in (*t.layer.inputs, *t.layer.outputs))
        and view.writers[i]
        and view.readers[i]
    ]


def _kind(layer: EngineLayer) -> str:
    """Kind of a layer: quantized (it computes on such data), converts (one side quantized), moves, float, other."""
    taken = {t.dtype for t in layer.inputs}
    given = {t.dtype for t in layer.outputs}
    if (layer.moves or layer.type == "Scale") and bool(taken & QUANTIZED) != bool(given & QUANTIZED):
        return "converts" if (taken | given) & FLOATS else "other"
    if layer.moves:
        return "moves"
    if layer.inputs and layer.inputs[0].dtype in QUANTIZED:
        return "quantized"
    return "float" if given & FLOATS else "other"


def _floats(layer: EngineLayer) -> bool:
    return any(t.dtype in FLOATS for t in layer.outputs)


def _to_output(view: EngineView, kinds: list[str]) -> set[int]:
    """Layers that write the network's output, directly or through layers that only move it."""
    border = view.network_tensors
    found: set[int] = set()
    for i in range(len(view.layers) - 1, -1, -1):
        layer = view.layers[i].layer
        readers = view.readers[i]
        ends = any(t.name in border for t in layer.outputs) or not readers
        if ends or (readers and all(r in found and kinds[r] in ("moves", "other") for r in readers)):
            found.add(i)
    return found


def _gap(view: EngineView, kinds: list[str], start: int, outputs: set[int]) -> Gap:
    """From a product that writes floats along all that takes them, up to what quantizes again or ends the network."""
    writers, floats, converts, stops = {start}, set[int](), set[int](), set[int]()
    queue, seen = [start], {start}
    near = {start}  # writers, and what only moves their floats
    while queue:
        at = queue.pop()
        given = {t.name for t in view.layers[at].layer.outputs if t.dtype in FLOATS}
        for reader in view.readers[at]:
            if not given & {t.name for t in view.layers[reader].layer.inputs} or reader in seen:
                continue
            seen.add(reader)
            kind = kinds[reader]
            if kind == "converts":
                converts.add(reader)
                continue
            if kind == "quantized":  # takes the floats beside its quantized input: a sum that was fused into it
                stops.add(reader)
                if not any(t.dtype in FLOATS for t in view.layers[reader].layer.outputs) or reader in outputs:
                    continue
                writers.add(reader)
                near.add(reader)
            elif kind == "float":
                floats.add(reader)
                if at in near:
                    stops.add(reader)
            elif at in near:
                near.add(reader)
            queue.append(reader)
    converts |= {
        w
        for i in (*writers, *floats)
        for w in view.writers[i]
        if kinds[w] == "converts" and view.layers[w].layer.outputs[0].dtype in FLOATS
    }
    return Gap(sorted(writers), sorted(floats), sorted(converts), sorted(stops))


def _merged(found: list[Gap]) -> list[Gap]:
    """Gaps that share a layer are one."""
    kept: list[Gap] = []
    whose: dict[int, Gap] = {}
    for gap in found:
        own = [*gap.writers, *gap.floats]
        same = next((whose[i] for i in own if i in whose), None)
        whose |= dict.fromkeys(own, gap if same is None else same)
        if same is None:
            kept.append(gap)
            continue
        for name in ("writers", "floats", "converts", "stops"):
            setattr(same, name, sorted({*getattr(same, name), *getattr(gap, name)}))
    return kept


def gap_keys(view: EngineView) -> frozenset[str]:
    """The writers of an engine's gaps, by name without the numbers that exporters count up."""
    return frozenset(key(view.layers[i].layer) for g in gaps(view) if g.converts for i in g.writers)


def explicit(view: EngineView) -> bool:
    """Whether the engine was quantized by Q/DQ nodes (and not by calibration): some layer is made of them."""
    return any(
        t.layer.reformat_origin == "QDQ"
        or any("uantize" in n for n in t.layer.nodes)
        or "uantizeLinear" in t.layer.name
        for t in view.layers
    )
