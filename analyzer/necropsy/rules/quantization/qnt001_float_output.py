"""Quantized layers write floating point, because what follows is not quantized

What it means
    A convolution or product runs in INT8 (or FP8) but writes FP16 or FP32. The layers behind
    it move two to four times the bytes, and further layers do nothing but convert until
    the next quantized layer.

Why it happens
    With Q/DQ nodes (explicit quantization) a layer writes INT8 only if a QuantizeLinear
    follows it directly. It is missing most often before a pooling, on one branch of a
    residual sum (both inputs of the sum must be quantized for it to be fused in INT8), and
    before activations that are not ReLU.

How to confirm
    In the engine's JSON the layer's output has another type than its input; the layers
    around have the origin QDQ. `--exportProfile` tells their times.

How to fix
    Add a Q/DQ pair at the named place and build again: in pytorch-quantization a
    `TensorQuantizer` on that input, in ModelOpt a quantizer configuration for the module.
    For residual sums quantize both branches, with one scale.

Limits
    Needs an engine built with detailed profiling verbosity. The cost is the time of the
    converting layers, where a profile is there; that the layers of the gap become faster,
    too, is counted only if a build without the gap is analyzed beside it. What the network
    itself gives out is no gap. Whether accuracy allows the quantization is not told here.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html
    - trt-engine-explorer, linter of convolutions with float output (removed from TensorRT in June 2026)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from necropsy.evidence._trt_engines import EngineView
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.evidence.trt_releases import TrtReleases
from necropsy.finding import Cost, Fact, Finding, Fix, Severity
from necropsy.provenance.engine_layers import LayerPlaces
from necropsy.rule import rule
from necropsy.rules.quantization._gaps import Gap, explicit, gap_keys, gaps
from necropsy.rules.tensorrt._claims import (
    about_layers,
    described,
    milliseconds,
    of_engine,
    percent,
    time_of,
    type_name,
)
from necropsy.rules.tensorrt._pairs import MAX_LAYERS, alike, changed, differences, lost

_SHOWN: Final = 4


@rule("QNT001", "float-output", Severity.WARNING, aliases=("int8-float-output", "qdq-gap"))
def check(
    trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources, releases: TrtReleases
) -> Iterator[Finding]:
    """One finding an engine: its gaps, what they cost, what is missing where."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
        found = [g for g in gaps(view) if g.converts]
        if found:
            yield _finding(view, places, found, releases, _twin(view, trt_layers.engines))


def _twin(view: EngineView, engines: Sequence[EngineView]) -> tuple[EngineView, float] | None:
    """A faster build of the same model without one of the gaps, and how much less the layers of the gaps take there."""
    own, whole = gap_keys(view), {i for g in gaps(view) for i in g.layers}
    best = None
    for other in engines:
        if other is view or not view.total_ms or not other.total_ms or other.total_ms >= view.total_ms:
            continue
        if len(view.layers) > MAX_LAYERS or not alike(view, other) or not own - gap_keys(other):
            continue
        touched = [d for d in differences(view, other) if whole & set(d.before)]
        spent = sum(lost(view, other, d) for d in touched)
        if spent > 0 and (best is None or spent > best[1]):
            best = (other, spent)
    return best


def _there(view: EngineView, other: EngineView, whole: Sequence[int], places: LayerPlaces) -> list[str]:
    """What the other build does instead of the gap's layers."""
    touched = [d for d in differences(view, other) if set(whole) & set(d.before)]
    return [changed(view, other, d, places) for d in touched[:_SHOWN]]


def _finding(
    view: EngineView,
    places: LayerPlaces,
    found: list[Gap],
    releases: TrtReleases,
    twin: tuple[EngineView, float] | None,
) -> Finding:
    writers = [i for g in found for i in g.writers]
    converts = [i for g in found for i in g.converts]
    whole = [i for g in found for i in g.layers]
    types = sorted({t.dtype for i in writers for t in view.layers[i].layer.outputs if t.dtype})
    written = " and ".join(type_name(t) for t in types)
    stops = list(dict.fromkeys(s for g in found for s in _stops(view, places, g)))
    where = _either(stops)
    if len(writers) == 1:
        subject = f"The quantized layer {places.shown(view.layers[writers[0]].layer)}{of_engine(view)} writes {written}"
    else:
        subject = f"{len(writers)} quantized layers{of_engine(view)} write {written}"
    because = f", because {where} {'is' if len(stops) == 1 else 'are'} not quantized" if stops else ""
    spent, taken = time_of(view, converts), time_of(view, whole)
    cost = f" ({spent})" if spent else ""
    more = f"; with its layers in floating point the {_gaps(len(found))} {taken}" if taken else ""
    cheaper = ""
    changes: dict[str, Any] = {}
    if twin is not None:
        other, less = twin
        total = view.total_ms or 0.0
        cheaper = (
            f"; {other.label} is the same model without {'it' if len(found) == 1 else 'all of them'} and takes "
            f"{milliseconds(less)} less for these layers ({percent(less / total)} of the run)"
        )
        more = ""
        changes["cost"] = Cost(round(less * 1e6), less / total, "measured")
    verb = "layer only converts" if len(converts) == 1 else "layers only convert"
    facts: dict[str, Fact] = {
        "gaps": len(found),
        "quantized by": "Q/DQ nodes" if explicit(view) else "calibration or given ranges",
        "converting": [described(view, places, i) for i in converts[:_SHOWN]],
        "in floating point": [described(view, places, i) for g in found for i in g.floats][:_SHOWN],
        "missing quantization": stops,
        "without the gap": _there(view, twin[0], whole, places) if twin is not None else [],
    }
    return about_layers(
        view,
        places,
        [i for g in found for i in (*g.writers, *g.floats)],
        f"{subject}{because}: {len(converts)} {verb} between the types for this{cost}{more}{cheaper}.",
        Severity.WARNING,
        charged=converts,
        facts={k: v for k, v in facts.items() if v},
        fixes=_fixes(view, stops, releases),
        **changes,
    )


def _gaps(count: int) -> str:
    return "gap takes" if count == 1 else f"{count} gaps take"


def _stops(view: EngineView, places: LayerPlaces, gap: Gap) -> list[str]:
    """What is not quantized: the input of a layer, or one input of a sum that was fused into a quantized layer."""
    names = []
    for i in gap.stops:
        layer = view.layers[i].layer
        if i in gap.writers or i not in gap.floats:
            sums = [n for n in layer.nodes if n.rsplit("/", 1)[-1].startswith(("Add", "add"))]
            names.append(f"the residual input of {sums[0]}" if sums else f"one input of {places.shown(layer)}")
        else:
            names.append(f"the input of {places.shown(layer)}")
    return names


def _either(stops: Sequence[str]) -> str:
    if len(stops) <= 2:
        return " and ".join(stops)
    return f"{stops[0]}, {stops[1]} and {len(stops) - 2} more"


def _fixes(view: EngineView, stops: Sequence[str], releases: TrtReleases) -> tuple[Fix, ...]:
    where = _either(stops) or "the outputs of these layers"
    if explicit(view):
        pair = Fix(f"Add a Q/DQ pair at {where}, and build the engine again", "code")
        residual = Fix("At residual sums quantize both inputs with one scale, so that the sum is fused in INT8", "code")
        return (pair, residual) if any("residual" in s for s in stops) else (pair,)
    major = releases.major_of(view.key)
    moved = Fix("Quantize the model with Q/DQ nodes (ModelOpt), which say where INT8 begins and ends", "code")
    if major is not None and major >= 11:
        return (moved,)
    old = "" if major is not None else " (TensorRT 10 and older)"
    return (Fix(f"Give {where} a dynamic range or calibrate it, and allow INT8 there{old}", "code"), moved)
