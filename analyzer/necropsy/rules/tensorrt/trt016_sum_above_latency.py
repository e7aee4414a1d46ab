"""The layers' times add up to more than the engine's latency

What it means
    The profile times each layer with an event before and after it. Those events cost time, and
    layers that overlap are counted in full: the sum is not the engine's time.

Why it happens
    Profiling switches off CUDA graphs and overlap, and adds about two microseconds a layer.

How to confirm
    Compare `GPU Compute Time` of trtexec's summary with the sum of `averageMs`.

How to fix
    Take shares from the profile and the latency from the summary. Run trtexec with
    `--separateProfileRun`, so that profiling does not slow the measured runs.

Limits
    A note. Needs trtexec's summary beside the profile.

References
    - https://github.com/NVIDIA/TensorRT/tree/release/10.16/tools/experimental/trt-engine-explorer
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import Cost, Finding, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._claims import about_layers, milliseconds, of_engine, percent


class Thresholds(Struct, frozen=True):
    """`above`: how far the sum exceeds the engine's time on the GPU."""

    above: float = 0.1


@rule("TRT016", "sum-above-latency", Severity.NOTE, settings=Thresholds)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources, t: Thresholds) -> Iterator[Finding]:
    """One note an engine with a profile and a summary."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
        total, whole = view.total_ms, view.compute_ms
        if not total or not whole or total < (1 + t.above) * whole or view.profile is None:
            continue
        timed = sum(x.ms is not None for x in view.layers)
        yield about_layers(
            view,
            places,
            [0],
            f"The layers{of_engine(view)} add up to {milliseconds(total)} and a run takes {milliseconds(whole)}: they "
            f"were timed one by one, {percent(total / whole - 1)} is the cost of timing, or overlaps; use shares only.",
            Severity.NOTE,
            facts={"layers timed": timed, "each": milliseconds((total - whole) / max(timed, 1))},
            cost=Cost(),
            code=(),
            anchor=view.profile.anchor,
        )
