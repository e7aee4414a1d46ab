"""Q/DQ nodes run as layers of their own

What it means
    QuantizeLinear and DequantizeLinear nodes should vanish into the layers around them.
    These did not: each reads a whole tensor, multiplies it by a scale and writes it again.

Why it happens
    A Q/DQ pair stands where no layer can take it in: between two layers in floating point,
    on one branch only, or on an operation without a quantized kernel.

How to confirm
    In the engine's JSON they are layers of type Reformat with origin QDQ, or of type Scale
    with one INT8 side (TensorRT 8.0 to 8.4), named after the node.

How to fix
    Move the pair next to the operation that shall run quantized, or take it out. Quantize
    both inputs of sums and concatenations.

Limits
    Conversions at the network's inputs and outputs are needed and not counted. Those that
    belong to a gap between quantized layers are told by QNT001. Costs need a profile.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html
    - trt-engine-explorer, linter of Q/DQ (removed from TensorRT in June 2026)
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.quantization._gaps import conversions, gaps
from necropsy.rules.tensorrt._claims import about_layers, by_time, of_engine, time_of


class Thresholds(Struct, frozen=True):
    """`share`: of all layers' time, from which on it is a warning; without a profile it stays a note."""

    share: float = 0.01


@rule("QNT002", "unfused-qdq", Severity.WARNING, settings=Thresholds)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources, t: Thresholds) -> Iterator[Finding]:
    """One finding an engine: Q/DQ layers that are in no gap."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
        in_gaps = {i for g in gaps(view) for i in g.converts}
        found = [i for i in conversions(view) if i not in in_gaps]
        if not found:
            continue
        spent, share = time_of(view, found), view.share(found)
        which = ", ".join(places.shown(view.layers[i].layer) for i in by_time(view, found)[:3])
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        one = len(found) == 1
        yield about_layers(
            view,
            places,
            found,
            f"{len(found)} {'layer' if one else 'layers'}{of_engine(view)} only quantize{'s' if one else ''} or "
            f"dequantize{'s' if one else ''} ({which}{more}), because the layers around could not take "
            f"{'it' if one else 'them'} in{': ' + spent if spent else ''}.",
            Severity.WARNING if share is not None and share >= t.share else Severity.NOTE,
            fixes=(
                Fix("Move each Q/DQ pair next to the operation that shall run quantized, or take it out", "code"),
                Fix("Quantize both inputs of sums and concatenations, with one scale", "code"),
            ),
        )
