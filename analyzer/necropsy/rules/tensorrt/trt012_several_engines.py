"""A model was split into several engines

What it means
    The inputs tell several engines that are parts of one model (not builds of the same): what lies
    between them runs outside of TensorRT, and each border costs copies, launches and a wait.

Why it happens
    Torch-TensorRT, onnxruntime and TF-TRT cut a model where an operation is not supported, or
    where a part is smaller than `min_block_size`.

How to confirm
    Torch-TensorRT's dry run (`dryrun=True`) lists the parts and what lies between; onnxruntime
    prints how many nodes each provider took.

How to fix
    Register a converter or plugin for the operation at the border, rewrite it, or raise
    `min_block_size` so that small parts stay in PyTorch.

Limits
    A note. Engines count as parts if they lie in one input or folder, share no nodes, and one takes a
    tensor that another gives, or both bear names of Torch-TensorRT.

References
    - https://docs.pytorch.org/TensorRT/user_guide/torch_compile.html
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from necropsy.evidence._trt_engines import EngineView
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._claims import about_layers, milliseconds
from necropsy.rules.tensorrt._pairs import alike, same_work

_MOST = 64  # engines of one folder that are compared with each other


@rule("TRT012", "several-engines", Severity.NOTE)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources) -> Iterator[Finding]:
    """One note a group of engines."""
    places = trt_layers.places(onnx_nodes, sources)
    groups: dict[str, list[EngineView]] = defaultdict(list)
    for view in trt_layers.engines:
        groups[view.key.replace("\\", "/").partition("#")[0].rpartition("/")[0]].append(view)
    for views in groups.values():
        pairs = [(a, b) for i, a in enumerate(views[:_MOST]) for b in views[i + 1 : _MOST]]
        if not pairs or not all(_apart(a, b) for a, b in pairs) or not any(_joined(a, b) for a, b in pairs):
            continue
        facts: dict[str, Fact] = {"engines": [_told(v) for v in views[:8]]}
        yield about_layers(
            views[0],
            places,
            [0],
            f"The model was split into {len(views)} engines ({sum(len(v.layers) for v in views)} layers): what lies "
            f"between them runs outside of TensorRT, with copies and launches at each border.",
            Severity.NOTE,
            charged=[],
            facts=facts,
            code=(),
            fixes=(
                Fix("See at which operations the model was cut (Torch-TensorRT: `dryrun=True`)", "investigate"),
                Fix("Add a converter or plugin for them, or raise `min_block_size`", "config"),
            ),
        )


def _apart(a: EngineView, b: EngineView) -> bool:
    """Whether two engines hold different nodes."""
    left = {n for t in a.layers for n in t.layer.nodes}
    right = {n for t in b.layers for n in t.layer.nodes}
    return bool(left) and bool(right) and not left & right and not alike(a, b) and not same_work(a, b)


def _joined(a: EngineView, b: EngineView) -> bool:
    """Whether one takes what the other gives, or both come of Torch-TensorRT's partitioning of one program.

    Ranks that write into one log build what each of them runs.
    """
    if a.engine is not None and b.engine is not None and a.engine.origin != b.engine.origin:
        return False
    torch = all(any("]-[" in t.layer.name for t in v.layers) for v in (a, b))
    return torch or bool(a.network_tensors & b.network_tensors)


def _told(view: EngineView) -> str:
    time = f", {milliseconds(view.total_ms)}" if view.total_ms is not None else ""
    return f"{view.label}: {len(view.layers)} layers{time}"
