"""Layers only convert tensors from one type to another

What it means
    TensorRT put in layers that do nothing but convert: FP32 to FP16 and back, or floats to
    INT8 where no Q/DQ node asked for it. Each reads and writes a whole tensor.

Why it happens
    Neighbours run in different precisions: the network's input and output are FP32 by
    default, a layer was kept or fell back to FP32, or casts stand in the model.

How to confirm
    `--exportProfile` lists them as `Reformatting CopyNode for ...`, with their times.

How to fix
    Give and take the network's tensors in its precision (`--inputIOFormats=fp16:chw`,
    `tensor.dtype` and `allowed_formats` in Python; in strongly typed networks the model's own
    input type). Inside the network find the layer that is in another precision than its
    neighbours.

Limits
    Conversions of Q/DQ nodes are told by QNT001 and QNT002. Conversions of integer and boolean
    tensors are small and not counted.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/advanced.html
    - trt-engine-explorer, linter of reformats (removed from TensorRT in June 2026)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from necropsy.evidence._trt_engines import EngineView
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.evidence.trt_releases import TrtReleases
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.quantization._gaps import conversions, gaps
from necropsy.rules.tensorrt._claims import FLOATS, about_layers, by_time, of_engine, time_of, types_of
from necropsy.rules.tensorrt._reformats import at_border, changes_type, working


class Thresholds(Struct, frozen=True):
    """`share` of all layers' time for a warning; without a profile it stays a note."""

    share: float = 0.01


@rule("TRT003", "reformat-changes-type", Severity.WARNING, settings=Thresholds)
def check(
    trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources, releases: TrtReleases, t: Thresholds
) -> Iterator[Finding]:
    """One finding an engine."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
        told = {*conversions(view), *(i for g in gaps(view) for i in g.converts)}
        found = [i for i in working(view) if i not in told and _converts(view, i)]
        if not found:
            continue
        spent, share = time_of(view, found), view.share(found)
        first = by_time(view, found)[0]
        layer = view.layers[first].layer
        change = f"{types_of(layer.inputs)} to {types_of(layer.outputs)}"
        border = at_border(view, first)
        what = f"the network's {border}" if border else f"between {places.shown(layer)} and its neighbour"
        subject = f"{len(found)} layers{of_engine(view)} only convert types, most of all"
        if len(found) == 1:
            subject = f"A layer{of_engine(view)} only converts"
        yield about_layers(
            view,
            places,
            found,
            f"{subject} {what} from {change}{': ' + spent if spent else ''}, without computing anything.",
            Severity.WARNING if share is not None and share >= t.share else Severity.NOTE,
            fixes=_fixes(view, found, releases.major_of(view.key)),
        )


def _converts(view: EngineView, index: int) -> bool:
    """Conversions of data; those that Q/DQ nodes ask for at the border are part of the quantization."""
    layer = view.layers[index].layer
    if layer.reformat_origin.upper() in ("QDQ", "SLICE") or not changes_type(layer):
        return False
    return any(t.dtype in FLOATS for t in layer.inputs) or any(t.dtype in FLOATS for t in layer.outputs)


def _fixes(view: EngineView, found: Sequence[int], major: int | None) -> tuple[Fix, ...]:
    border = [at_border(view, i) for i in found]
    fixes = []
    if any(border):
        names = " and ".join(dict.fromkeys(b for b in border if b))
        how = "export the model with that type" if major is not None and major >= 11 else "or --inputIOFormats=fp16:chw"
        fixes.append(Fix(f"Give the network's {names} the type that it computes in ({how})", "config"))
    if not all(border):
        fixes.append(Fix("Find the layer that runs in another precision than its neighbours, and why", "investigate"))
    return tuple(fixes)
