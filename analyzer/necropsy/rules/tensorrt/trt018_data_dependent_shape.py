"""A layer waits for a size that is only known on the GPU

What it means
    The size of a tensor depends on values (NonZero, non-maximum suppression, boolean indexing). The
    host must wait for the GPU, read the size, and only then launch what follows; a CUDA graph
    cannot capture such a run.

Why it happens
    Boolean masks, `torch.nonzero`, `unique`, and post-processing inside the model.

How to confirm
    Layers of type TrainStation, `DeviceToShapeHost` or named after NonZero in the engine's
    JSON; gaps on the GPU after them in a timeline.

How to fix
    Take such post-processing out of the engine, or give it a fixed size: `topk` with a fixed
    number, masks instead of gathers, the EfficientNMS plugin with `max_output_boxes`.

Limits
    What the wait costs is not in a profile by layer: see a timeline.

References
    - https://github.com/NVIDIA/TensorRT/issues/3585
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-dynamic-shapes.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._claims import about_layers, of_engine

_WAITS: Final = re.compile(r"TrainStation|DeviceToShapeHost|ShapeHostToDevice|DeviceToHost", re.I)
_SIZES: Final = re.compile(r"NonZero|NMS|NonMaxSuppression|Unique", re.I)


@rule("TRT018", "data-dependent-shape", Severity.WARNING)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources) -> Iterator[Finding]:
    """One finding an engine."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
        waits = [i for i, t in enumerate(view.layers) if _WAITS.search(t.layer.type) or "trainStation" in t.layer.name]
        sized = [i for i, t in enumerate(view.layers) if _SIZES.fullmatch(t.layer.type)]
        waits = [i for i in waits if "ShapeHostToDevice" not in view.layers[i].layer.type]
        if not waits and not sized:
            continue
        causes = sized or [i for i, t in enumerate(view.layers) if any(_SIZES.search(n) for n in t.layer.nodes)]
        first = f" for the size that {places.shown(view.layers[causes[0]].layer)} computes" if causes else ""
        number = len(waits) or len(sized)
        yield about_layers(
            view,
            places,
            causes or waits,
            f"The host waits {number} time{'s' if number > 1 else ''} a run{of_engine(view)}{first}: kernels behind it "
            f"cannot be launched ahead, nor the run be captured in a CUDA graph.",
            Severity.WARNING,
            charged=[],
            facts={"waiting layers": [view.layers[i].layer.name[:80] for i in waits[:6]]} if waits else {},
            fixes=(
                Fix("Give the result a fixed size: `topk` with a fixed number, masks instead of gathers", "code"),
                Fix("Take the post-processing out of the engine", "code"),
            ),
        )
