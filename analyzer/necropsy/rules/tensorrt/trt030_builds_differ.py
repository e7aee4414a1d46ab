"""Two engines of one model differ, and by how much time

What it means
    Two engines that were analyzed together are builds of one model. One is faster; the layers
    in which they differ are told, with their times in both.

Why it happens
    Another placement of Q/DQ nodes, other precisions, another release or tactic.

How to confirm
    The profiles of both engines, layer by layer.

How to fix
    Take over what the faster build does differently, where accuracy allows.

Limits
    Needs both engines' JSON and both profiles. Layers are matched by name without the numbers
    that exporters count up; what has other names in both is one stretch. Single layers vary by a
    few percent from run to run: only stretches that differ in layers or types are told. If the
    slower build has a gap between quantized layers that the other has not, QNT001 says so.

References
    - https://github.com/NVIDIA/TensorRT/tree/release/10.16/tools/experimental/trt-engine-explorer
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from msgspec import Struct

from necropsy.evidence._trt_engines import EngineView
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import Cost, Finding, Fix, Related, Severity
from necropsy.provenance.engine_layers import LayerPlaces
from necropsy.rule import rule
from necropsy.rules.quantization._gaps import gap_keys
from necropsy.rules.tensorrt._claims import about_layers, described, milliseconds, percent
from necropsy.rules.tensorrt._pairs import MAX_LAYERS, Difference, alike, changed, differences, lost


class Thresholds(Struct, frozen=True):
    """`share` by which one build is slower, for a warning; `engines`: more than that are not compared pair by pair."""

    share: float = 0.03
    engines: int = 6


@rule("TRT030", "builds-differ", Severity.WARNING, settings=Thresholds)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources, t: Thresholds) -> Iterator[Finding]:
    """One finding a pair of builds of one model that were both timed."""
    timed = [v for v in trt_layers.engines if v.total_ms and v.typed and len(v.layers) <= MAX_LAYERS]
    if len(timed) > t.engines:
        return
    places = trt_layers.places(onnx_nodes, sources)
    for pair in combinations(timed, 2):
        slow, fast = sorted(pair, key=lambda v: -(v.total_ms or 0.0))
        if not alike(slow, fast) or (slow.total_ms or 0.0) < (1 + t.share) * (fast.total_ms or 0.0):
            continue
        if gap_keys(slow) - gap_keys(fast):
            continue  # QNT001 tells it, with the other build's times
        found = [d for d in differences(slow, fast) if lost(slow, fast, d)]
        if found:
            yield _finding(slow, fast, found, places)


def _finding(slow: EngineView, fast: EngineView, found: Sequence[Difference], places: LayerPlaces) -> Finding:
    total, less = slow.total_ms or 0.0, fast.total_ms or 0.0
    spent = sum(lost(slow, fast, d) for d in found)
    before = [i for d in found for i in d.before]
    first = changed(slow, fast, found[0], places)
    rest = f"; {len(found) - 1} more stretch{'es' if len(found) > 2 else ''} differ{'s' if len(found) == 2 else ''}"
    where = next((d for d in found if d.before), None)
    return about_layers(
        slow,
        places,
        before or [0],
        f"{slow.label} takes {milliseconds(total)} a run and {fast.label} {milliseconds(less)} "
        f"({percent(1 - less / total)} less): the layers in which they differ make {milliseconds(spent)} of it, "
        f"most of all {first}{rest if len(found) > 1 else ''}.",
        Severity.WARNING,
        facts={
            "differences": [changed(slow, fast, d, places) for d in found[:6]],
            "other engine": fast.label,
        },
        cost=Cost(round(max(spent, 0.0) * 1e6), spent / total if total else None, "measured"),
        related=tuple(
            Related(fast.layers[i].layer.anchor, described(fast, places, i)) for d in found[:3] for i in d.after[:1]
        ),
        fixes=(
            Fix(
                f"Do in {slow.label} what {fast.label} does at "
                f"{places.shown(slow.layers[where.before[0]].layer) if where else 'these layers'}",
                "code",
            ),
        ),
    )
