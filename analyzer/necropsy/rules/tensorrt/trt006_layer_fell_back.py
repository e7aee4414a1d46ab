"""Layers that run in a higher precision than the build allowed, and why

What it means
    The build allowed INT8 or FP16, and some layers run in FP16 or FP32 all the same. They are slower than
    they could be, and reformats stand around them.

Why it happens
    The builder takes the fastest kernel for the whole, so that a layer may stay in FP32 because its FP16 kernel is
    slower or because the reformats around it cost more than it gains: that is no fault. Or there is no kernel of
    that type for this layer (shape, groups, dilation, GPU), or a tensor has no INT8 scale, or the kernel asks for more
    memory than is allowed.

How to confirm
    The verbose log lists the runners that were timed for the layer in each type, with their times.

How to fix
    By reason: channels in multiples of 8 (FP16) or 16 (INT8), scales or Q/DQ at the layer's inputs, a larger workspace.
    From TensorRT 11 on the types of the graph decide: change them there.

Limits
    Needs a verbose log with tactics and the list of layers, and a build with precision flags: networks of
    Q/DQ nodes or strong typing fall back by their graph. Layers inside of a Myelin region are not seen.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/accuracy-considerations.html
    - https://github.com/NVIDIA/TensorRT/issues/3737
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from necropsy_parsers.tensorrt.records import EngineLayer
from necropsy_parsers.tensorrt_log.records import TrtBuild, TrtTactic

from necropsy.claim import from_record
from necropsy.evidence._trt_engines import EngineView
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.evidence.trt_tactics import TrtTactics
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._claims import type_name
from necropsy.rules.tensorrt._log import by_release, places_of, short, some

_PRODUCT: Final = re.compile(r"conv|gemm|matrix_?mult|matmul|fullyconnected", re.I)
_PRINTED: Final = {"fp16": "Half", "bf16": "BFloat16", "int8": "Int8", "fp32": "Float"}
_PAD: Final = Fix("Make channels multiples of 8 for FP16, of 16 for INT8, where that is the reason", "code")
_SCALES: Final = Fix("Give the inputs of these layers scales: Q/DQ nodes in the model (ModelOpt)", "code")
_GRAPH: Final = Fix("Change the types in the graph: from TensorRT 11 on they decide", "code")


class _Fell(Struct, frozen=True):
    """A layer, the type it runs in, and why; `chosen` that it was the faster one."""

    layer: EngineLayer
    dtype: str
    why: str
    chosen: bool


@rule("TRT006", "layer-fell-back", Severity.WARNING)
def check(
    layers: TrtLayers,
    builds: TrtBuilds,
    messages: TrtMessages,
    tactics: TrtTactics | None,
    nodes: OnnxNodes | None,
    sources: Sources,
) -> Iterator[Finding]:
    """One finding an engine and reason that is no choice; what the builder chose is a note."""
    for view in layers.engines:
        first = view.layers[0].layer if view.layers else None
        build = builds.at(first.anchor.input, first.seq) if first is not None else None
        if build is None or build.quantized or build.strong:
            continue
        wanted = _wanted(build)
        fell = list(_fell(view, build, wanted, messages, tactics)) if wanted else []
        for chosen in (False, True):
            group = [f for f in fell if f.chosen is chosen]
            if group:
                yield _finding(group, build, wanted, nodes, sources)


def _wanted(build: TrtBuild) -> str:
    types = build.types or frozenset()
    return next((t for t in ("int8", "fp16", "bf16") if t in types or "best" in types), "")


def _fell(
    view: EngineView, build: TrtBuild, wanted: str, messages: TrtMessages, tactics: TrtTactics | None
) -> Iterator[_Fell]:
    rejected = {s for m in messages.of("int8-rejected") if m.build == build.build for s in m.subjects}
    for timed in view.layers:
        layer = timed.layer
        dtype = layer.inputs[0].dtype if layer.inputs else ""
        if not _PRODUCT.search(layer.type) or dtype not in ("fp32", "fp16", "bf16") or dtype == wanted:
            continue
        rows = tactics.of_layer(layer.name, build.anchor.input, build.build) if tactics is not None else []
        if layer.name in rejected:
            yield _Fell(layer, dtype, "its inputs or outputs have no INT8 scale", False)
        elif rows:
            yield _reason(layer, dtype, wanted, rows)
        elif dtype == "fp32":
            yield _Fell(layer, dtype, "the log does not tell why", True)


def _reason(layer: EngineLayer, dtype: str, wanted: str, rows: Sequence[TrtTactic]) -> _Fell:
    tried = [r for r in rows if r.inputs.startswith(_PRINTED[wanted])]
    own = [r.fastest_ms for r in rows if r.inputs.startswith(_PRINTED[dtype]) and r.fastest_ms is not None]
    times = [r.fastest_ms for r in tried if r.fastest_ms is not None]
    if not tried:
        return _Fell(layer, dtype, f"no {type_name(wanted)} kernel was tried", False)
    if not times and any(r.skipped == "memory" for r in tried):
        return _Fell(layer, dtype, f"its {type_name(wanted)} kernels ask for more memory than is allowed", False)
    if not times:
        return _Fell(layer, dtype, f"there is no {type_name(wanted)} kernel for it", False)
    if own and min(own) <= min(times):
        return _Fell(layer, dtype, f"it is faster so ({min(own):.3g} against {min(times):.3g} ms)", True)
    return _Fell(layer, dtype, "reformats around it would cost more than it gains", True)


def _finding(
    group: Sequence[_Fell], build: TrtBuild, wanted: str, nodes: OnnxNodes | None, sources: Sources
) -> Finding:
    first = group[0]
    names = [f.layer.name for f in group]
    types = " and ".join(sorted({type_name(f.dtype) for f in group}))
    reasons = list(dict.fromkeys(f.why for f in group))
    why = reasons[0] if len(reasons) == 1 else f"{reasons[0]}, and {len(reasons) - 1} other reasons"
    facts: dict[str, Fact] = {
        "layers": [f"{short(f.layer.name, 60)}: {type_name(f.dtype)}, {f.why}" for f in group[:12]]
    }
    choice = ", which is the builder's choice" if first.chosen else ""
    runs = "runs" if len(group) == 1 else "run"
    text = f"{some(names)} {runs} in {types} although {type_name(wanted)} was allowed: {why}{choice}."
    return from_record(
        first.layer,
        text,
        Severity.NOTE if first.chosen else Severity.WARNING,
        code=() if first.chosen else places_of(names[:5], first.layer, nodes, sources, layer=True),
        facts=facts,
        fixes=() if first.chosen else by_release(build.major, (_PAD, _SCALES), (_GRAPH,), (_PAD, _SCALES)),
        subject="chosen" if first.chosen else "fell",
    )
