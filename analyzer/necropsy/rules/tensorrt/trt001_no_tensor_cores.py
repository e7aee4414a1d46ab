"""Convolutions or products in low precision run without Tensor Cores

What it means
    A layer computes in FP16, BF16 or INT8, but its kernel uses the ordinary cores. It then
    runs at a small part of the rate that the precision promises.

Why it happens
    Channels that are no multiple of 8 (16 for INT8), few input channels, groups, layouts that
    a neighbour asks for, or a kernel with Tensor Cores that was ruled out (workspace,
    tactic sources).

How to confirm
    The tactic's name: `simt`, `sgemm`, `dp4a` and names of sm_5x and sm_6x use ordinary cores;
    `imma`, `hmma`, `tensor16x8x32`, `tensorop`, `h16816`, `nvjet` use Tensor Cores.

How to fix
    Pad the channels to a multiple of 8 (INT8: 16), or fuse the layer with a wider one. See
    in the build's verbose log which tactics were tried, and whether any was skipped.

Limits
    Only kernels whose names tell are judged. Depthwise convolutions and products of fewer
    than 16 rows have no use for Tensor Cores and are left out. Layers with fewer than 32
    input channels stay a note. The cost is the layers' whole time, not what could be saved.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/best-practices.html
    - trt-engine-explorer, linter of Tensor Cores (removed from TensorRT in June 2026)
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
from necropsy.rules.tensorrt._products import channels, depthwise, is_product, rows, tensor_cores, work

_LOW = frozenset({"fp16", "bf16", "int8", "fp8", "int4", "fp4"})


class Thresholds(Struct, frozen=True):
    """`share` of all layers' time for a warning, without a profile `work` in multiplications; else a note.

    `channels`: fewer of them in stay a note; products of fewer `rows` are left out.
    """

    share: float = 0.01
    channels: int = 32
    rows: int = 16
    work: int = 10_000_000


@rule("TRT001", "no-tensor-cores", Severity.WARNING, settings=Thresholds)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources, t: Thresholds) -> Iterator[Finding]:
    """One finding an engine."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
        found = []
        for i, timed in enumerate(view.layers):
            layer = timed.layer
            low = bool(layer.inputs) and layer.inputs[0].dtype in _LOW
            slow = low and is_product(layer) and tensor_cores(layer) is False and not depthwise(layer)
            if slow and not 0 < rows(layer) < t.rows:
                found.append(i)
        if not found:
            continue
        few = all(0 < channels(view.layers[i].layer)[0] < t.channels for i in found)
        spent, share = time_of(view, found), view.share(found)
        first = view.layers[by_time(view, found)[0]].layer
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        large = sum(work(view.layers[i].layer) for i in found) >= t.work
        loud = not few and (large if share is None else share >= t.share)
        yield about_layers(
            view,
            places,
            found,
            f"{places.shown(first)}{more}{of_engine(view)} {'compute' if more else 'computes'} in low precision but "
            f"without Tensor Cores (kernel {first.tactic[:60]}){': ' + spent if spent else ''}, at a part of the rate "
            f"that the precision allows.",
            Severity.WARNING if loud else Severity.NOTE,
            facts={
                "channels": [
                    f"{c} in, {k} out" for c, k in dict.fromkeys(channels(view.layers[i].layer) for i in found)
                ]
            },
            fixes=(
                Fix("Pad channels to a multiple of 8 (INT8: 16), or join the layer with a wider one", "code"),
                Fix("Look in the verbose build log at the tactics that were timed for this layer", "investigate"),
            ),
        )
