"""An engine consists of many tiny layers

What it means
    No layer weighs, and most take a few microseconds: about what it takes to launch a kernel.
    The run is bound by launches and by starting kernels, not by the GPU's arithmetic.

Why it happens
    A small batch, a small network, or one that was not fused: shape arithmetic, gathers, casts
    and pointwise operations between the products.

How to confirm
    `Enqueue Time` in trtexec's summary comes near `GPU Compute Time`; a timeline shows gaps.

How to fix
    Capture the run in a CUDA graph (`--useCudaGraph`), raise the batch size, and look for what
    was not fused.

Limits
    A note. Each layer was timed with events around it, which adds about two microseconds.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/best-practices.html
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._claims import about_layers, milliseconds, of_engine, percent


class Thresholds(Struct, frozen=True):
    """`layers` at least; `ms`: a layer below is tiny; `share` of the time in tiny layers; `largest`: no layer above."""

    layers: int = 40
    ms: float = 0.01
    share: float = 0.6
    largest: float = 0.1


@rule("TRT011", "many-tiny-layers", Severity.NOTE, settings=Thresholds)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources, t: Thresholds) -> Iterator[Finding]:
    """One note an engine that was profiled."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
        times = {i: x.ms for i, x in enumerate(view.layers) if x.ms}
        tiny = [i for i, ms in times.items() if ms < t.ms]
        largest = max((view.share([i]) or 0.0 for i in times), default=1.0)
        share = view.share(tiny) or 0.0
        if len(times) < t.layers or share < t.share or largest > t.largest:
            continue
        graph = any(
            s.options.get("inference_options", {}).get("CUDA Graph", "").lower() == "enabled" for s in view.summaries
        )
        yield about_layers(
            view,
            places,
            tiny,
            f"{len(tiny)} of {len(times)} layers{of_engine(view)} take less than {milliseconds(t.ms)} each "
            f"(median {milliseconds(statistics.median(times.values()))}) and {percent(share)} of the time together: "
            f"launching kernels costs as much as running them.",
            Severity.NOTE,
            facts={"CUDA graph": "in use"} if graph else {},
            fixes=(
                *(() if graph else (Fix("Capture the run in a CUDA graph", "flag", command="trtexec --useCudaGraph"),)),
                Fix("Raise the batch size, if the application allows it", "config"),
            ),
        )
