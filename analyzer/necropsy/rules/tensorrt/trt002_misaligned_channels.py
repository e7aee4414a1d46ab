"""Half-precision layers have channels that are no multiple of 8

What it means
    Tensor Cores load 16 bytes at once: 8 values of FP16 or BF16. With other sizes TensorRT
    pads the tensor, takes a kernel with narrow loads, or one without Tensor Cores.

Why it happens
    A number of classes, anchors or heads that was not rounded up, or a model that was
    pruned to odd widths.

How to confirm
    In the engine's JSON `OutMaps` or the dimensions of the tensors; reformats around the
    layer tell of padding.

How to fix
    Round the width up to a multiple of 8 (better 64) and ignore or slice off the surplus.

Limits
    Images of 1, 3 or 4 channels, outputs of one or two values, and sizes of which padding is
    less than a twentieth pass. What padding saves is known after trying: the cost is the layers'
    whole time.

References
    - https://docs.nvidia.com/deeplearning/performance/dl-performance-convolutional/index.html
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


@rule("TRT002", "misaligned-channels", Severity.WARNING, settings=Thresholds)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources, t: Thresholds) -> Iterator[Finding]:
    """One finding an engine."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
        odd = misaligned(view, t.waste, quantized=False)
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
            fixes=(Fix(f"Pad {size} channels to {padded(size, 8)} and ignore or slice off the surplus", "code"),),
        )
