"""Q/DQ nodes have scales with which nothing can be quantized

What it means
    A QuantizeLinear or DequantizeLinear node of the model has a scale that is zero, negative or not
    finite. TensorRT refuses such a model, or the tensor becomes zeros or NaN.

Why it happens
    The calibrator saw only zeros (a dead channel, images that were not normalized) or NaN before the
    scales were written into the model; per-channel scales are taken from weights, and a
    pruned channel has none.

How to confirm
    Look at the initializer that the node takes as its second input.

How to fix
    Calibrate again with data that reaches the tensor; clamp per-channel scales of weights to a
    small positive number before the export.

Limits
    Scales above 4 KiB (more than 1,024 channels in FP32) and scales computed in the graph are not
    looked at.

References
    - https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from necropsy.evidence.onnx_nodes import OnnxNodeRow, OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import MAX_PLACES, Finding, Fix, Severity
from necropsy.rule import rule


@rule("QNT012", "bad-qdq-scale", Severity.ERROR)
def check(onnx_nodes: OnnxNodes, sources: Sources) -> Iterator[Finding]:
    """One finding a model."""
    found: dict[str, list[OnnxNodeRow]] = defaultdict(list)
    for row in onnx_nodes:
        if row.quantization is not None and row.quantization.bad:
            found[row.model].append(row)
    for rows in found.values():
        places = TrtLayers().places(onnx_nodes, sources)
        first = rows[0]
        bad = first.quantization.bad if first.quantization is not None else 0
        count = first.quantization.count if first.quantization is not None else 0
        more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        scales = "its scale is" if count == 1 else f"{bad} of {count} scales are"
        yield Finding(
            message=f"The Q/DQ node {first.name or first.outputs[0]}{more} cannot quantize: {scales} zero, negative or "
            f"not finite.",
            anchor=first.anchor,
            severity=Severity.ERROR,
            code=tuple(dict.fromkeys(p for r in rows for p in places.of_node(r.name)))[:MAX_PLACES],
            facts={"nodes": [f"{r.name}{f' ({r.module})' if r.module else ''}" for r in rows[:8]]},
            fixes=(
                Fix("Calibrate again with data that reaches this tensor", "code"),
                Fix("Clamp per-channel scales of weights to a small positive number before the export", "code"),
            ),
            seq=first.index,
            event=f"qdq-scales@{first.model}",
        )
