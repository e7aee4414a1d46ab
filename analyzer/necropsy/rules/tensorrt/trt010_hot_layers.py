"""One layer or one kind of layer takes most of the time

What it means
    A note on where the time of an engine goes: the layers that take a large share of it, or a
    kind of layer other than convolutions and products that does.

Why it happens
    Large products are where time should go. A reformat, a gather, a cast or pointwise code
    at the top is worth a look: it moves memory, and might be fused or avoided.

How to confirm
    `trtexec --exportProfile`, sorted by `averageMs`.

How to fix
    For a product: precision, alignment, batch size. For anything else: see why it was not fused
    into a neighbour.

Limits
    A note only. Layers were timed one by one, so that shares are of their sum (TRT016).

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/best-practices.html
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import Finding, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._claims import about_layers, by_time, of_engine, percent, time_of
from necropsy.rules.tensorrt._products import is_product


class Thresholds(Struct, frozen=True):
    """`layer`: share of one layer; `kind`: share of a kind of layer that is neither convolution nor product."""

    layer: float = 0.25
    kind: float = 0.3


@rule("TRT010", "hot-layers", Severity.NOTE, settings=Thresholds)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources, t: Thresholds) -> Iterator[Finding]:
    """One note an engine that was profiled."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
        if view.total_ms is None or len(view.layers) < 3:
            continue
        hot = [i for i in range(len(view.layers)) if (view.share([i]) or 0.0) >= t.layer]
        kinds: dict[str, list[int]] = defaultdict(list)
        for i, timed in enumerate(view.layers):
            if timed.layer.type and not is_product(timed.layer):
                kinds[timed.layer.type].append(i)
        kind = max(kinds, key=lambda k: view.share(kinds[k]) or 0.0, default="")
        if kind and (view.share(kinds[kind]) or 0.0) < t.kind:
            kind = ""
        if not hot and not kind:
            continue
        parts = [
            f"{places.shown(view.layers[i].layer)} takes {percent(view.share([i]) or 0.0)}" for i in by_time(view, hot)
        ]
        if kind:
            many = len(kinds[kind])
            parts.append(
                f"the {many} layer{'s' if many > 1 else ''} of type {kind} take{'' if many > 1 else 's'} "
                f"{percent(view.share(kinds[kind]) or 0.0)}"
            )
        chosen = hot or kinds[kind]
        yield about_layers(
            view,
            places,
            chosen,
            f"Of the time of all layers{of_engine(view)} {' and '.join(parts[:3])} ({time_of(view, chosen)}).",
            Severity.NOTE,
        )
