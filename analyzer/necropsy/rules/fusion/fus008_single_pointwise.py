"""Pointwise layers do a single operation each

What it means
    A pointwise layer reads a tensor, does one operation, and writes it again. Such layers should
    be fused with each other or into the layer before.

Why it happens
    Its neighbours are a reshape, a reformat, a plugin, a reduction, or a layer in another
    precision, or the tensor is read by several layers.

How to confirm
    `Operations` of the layer in the engine's JSON has one entry; see what is before and
    behind it.

How to fix
    Bring the operation next to the convolution or product (before the reshape), or do it in the
    precision of its neighbours.

Limits
    A note: the cost is the layers' time, most of which is memory traffic. Layers that write
    the network's output are left out.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/best-practices.html
    - trt-engine-explorer, report on pointwise layers (removed from TensorRT in June 2026)
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._claims import about_layers, by_time, of_engine, time_of


class Thresholds(Struct, frozen=True):
    """`share` of all layers' time for a note; `count` without a profile; `loud`: share for a warning."""

    share: float = 0.02
    count: int = 5
    loud: float = 0.1


@rule("FUS008", "single-pointwise", Severity.NOTE, settings=Thresholds)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources, t: Thresholds) -> Iterator[Finding]:
    """One finding an engine."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
        found = [
            i
            for i, x in enumerate(view.layers)
            if x.layer.shape.kind.startswith("PointWise") and x.layer.shape.operations == 1 and view.readers[i]
        ]
        share = view.share(found)
        if not found or (share is not None and share < t.share) or (share is None and len(found) < t.count):
            continue
        spent = time_of(view, found)
        names = ", ".join(places.shown(view.layers[i].layer) for i in by_time(view, found)[:3])
        one = len(found) == 1
        yield about_layers(
            view,
            places,
            found,
            f"{'A layer' if one else f'{len(found)} layers'}{of_engine(view)} {'does' if one else 'do'} a single "
            f"pointwise operation{'' if one else ' each'} ({names}) and {'was' if one else 'were'} not fused"
            f"{': ' + spent if spent else ''}.",
            Severity.WARNING if share is not None and share >= t.loud else Severity.NOTE,
            fixes=(Fix("Move the operation next to the convolution or product before it, in its precision", "code"),),
        )
