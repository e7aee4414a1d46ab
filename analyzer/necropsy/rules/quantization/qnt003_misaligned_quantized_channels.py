"""Quantized layers have channels that are no multiple of 16

What it means
    INT8 kernels of Tensor Cores take channels in groups of 16 (32 in the layout CHW32, which is
    fastest). With other sizes TensorRT pads the tensor or takes a slower kernel, and INT8
    gains little over FP16.

Why it happens
    A number of classes, anchors or heads that was not rounded up, or a model that was
    pruned to odd widths.

How to confirm
    In the engine's JSON `OutMaps` or the dimensions of the tensors; reformats around the
    layer tell of padding.

How to fix
    Round the width up to a multiple of 32 and ignore or slice off the surplus, or leave the
    layer in FP16.

Limits
    Images of 1, 3 or 4 channels, outputs of one or two values, and sizes of which padding is
    less than a twentieth pass. What padding saves is known after trying: the cost is the layers'
    whole time.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/best-practices.html
    - trt-engine-explorer, linter of alignment (removed from TensorRT in June 2026)
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._alignment import misaligned, padded, wasted
from necropsy.rules.tensorrt._claims import about_layers, by_time, of_engine, percent, time_of


class Thresholds(Struct, frozen=True):
    """`waste`: share of the padded channels that is padding; `share` of all layers' time for a warning, else a note."""

    waste: float = 0.05
    share: float = 0.02


@rule("QNT003", "misaligned-quantized-channels", Severity.WARNING, settings=Thresholds)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources, t: Thresholds) -> Iterator[Finding]:
    """One finding an engine."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
        odd = misaligned(view, t.waste, quantized=True)
        if not odd:
            continue
        sizes = {i: (size, multiple) for i, size, multiple in odd}
        found = by_time(view, sizes)
        spent, share = time_of(view, found), view.share(found)
        size, multiple = sizes[found[0]]
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield about_layers(
            view,
            places,
            found,
            f"{places.shown(view.layers[found[0]].layer)}{more}{of_engine(view)} {'have' if more else 'has'} "
            f"{size} "
            f"channels, no multiple of {multiple}: padded to {padded(size, multiple)}, "
            f"{percent(wasted(size, multiple))} of the work is for nothing{' (' + spent + ')' if spent else ''}.",
            Severity.WARNING if share is not None and share >= t.share else Severity.NOTE,
            facts={"channels": [f"{s} (next {padded(s, m)})" for s, m in dict.fromkeys(sizes.values())]},
            fixes=(Fix(f"Pad {size} channels to {padded(size, 32)} and ignore or slice off the surplus", "code"),),
        )
