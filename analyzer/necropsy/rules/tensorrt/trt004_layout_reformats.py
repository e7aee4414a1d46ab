"""Much time goes into changing layouts

What it means
    Between layers whose kernels want different layouts (channels first, channels last, channels
    in groups of 8 or 32) TensorRT puts reformats, which copy a whole tensor each.

Why it happens
    The fastest kernel of one layer wants another layout than that of its neighbour: after
    transposes and reshapes in the model, around layers and plugins that know one layout only,
    at the network's inputs and outputs, and around layers without an efficient kernel.

How to confirm
    `Reformatting CopyNode for ...` in the profile, and their origin in the engine's JSON.

How to fix
    Avoid transposes and reshapes in the hot part of the model; let plugins support the
    layout of their neighbours; allow other formats at inputs and outputs
    (`--inputIOFormats=fp16:hwc8`).

Limits
    Reformats that change the type are told by TRT003, QNT001 and QNT002 and are not counted here;
    those that TensorRT optimized away (`NoOp`) cost nothing. Without a profile it is a note.

References
    - https://github.com/NVIDIA/TensorRT/issues/2075
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/best-practices.html
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
from necropsy.rules.tensorrt._reformats import changes_type, why, working


class Thresholds(Struct, frozen=True):
    """`share` of all layers' time for a warning; `count` and `part` of all layers without a profile, for a note."""

    share: float = 0.05
    count: int = 5
    part: float = 0.1


@rule("TRT004", "layout-reformats", Severity.WARNING, settings=Thresholds)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources, t: Thresholds) -> Iterator[Finding]:
    """One finding an engine: how many, why, what they cost."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
        found = [i for i in working(view) if not changes_type(view.layers[i].layer)]
        share = view.share(found)
        many = len(found) >= max(t.count, t.part * len(view.layers))
        if not found or (share is not None and share < t.share) or (share is None and not many):
            continue
        spent = time_of(view, found)
        first = places.shown(view.layers[by_time(view, found)[0]].layer)
        most = f", most of it {first}" if spent else f", the first of them {first}"
        yield about_layers(
            view,
            places,
            found,
            f"{len(found)} of {len(view.layers)} layers{of_engine(view)} only change layouts or copy"
            f"{': ' + spent if spent else ''}{most}.",
            Severity.WARNING if share is not None else Severity.NOTE,
            facts={"why": why(view, found)},
            fixes=(
                Fix("Take transposes and reshapes out of the hot part of the model, or move them to its ends", "code"),
                Fix("Allow the layout of the first layers at the network's inputs and outputs", "config"),
            ),
        )
