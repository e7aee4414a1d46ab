"""Tensors without INT8 scales: the layers around them do not run in INT8

What it means
    INT8 was allowed, and tensors have neither a scale from calibration nor a dynamic range nor Q/DQ
    nodes. Each layer that reads or writes such a tensor falls back to FP16 or FP32.

Why it happens
    Calibration gives scales to activations of networks of convolutions. What is handed to the
    Myelin compiler as one region (attention, LayerNorm, most of a transformer) gets none, so that
    nothing there becomes INT8. A few constants without scales are normal in a convolutional network.
    A calibration cache of another model, or of another export of it, names other tensors.

How to confirm
    The engine's layers (`--dumpLayerInfo` with detailed profiling verbosity) show the types. Weights
    as large as in FP16 say the same.

How to fix
    Quantize explicitly: Q/DQ nodes in the model, put there by TensorRT Model Optimizer, and no
    calibrator. From TensorRT 11 on this is the only way.

Limits
    Without the engine's layers it is judged by the tensors' names whether the network is one that
    calibration cannot reach; if only constants lack scales, this is a note.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html
    - https://github.com/NVIDIA/TensorRT/issues/4058
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.tensorrt_log.records import TrtMessage

from necropsy.claim import from_record
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import by_release, major, named, places_of

_TRANSFORMER: Final = re.compile(
    r"layer_?norm|(?:self_?)?att(?:ention|n)\b|encoder|decoder|transformer|\bbert|\bvit\b|mlp|qkv|[qkv]_proj|softmax",
    re.I,
)
_CONSTANT: Final = re.compile(r"\[(?:Constant|Shuffle)\]|ONNXTRT_|[Cc]onstant|weight|bias|initializer", re.I)
_EXPLICIT: Final = Fix(
    "Quantize the model explicitly: insert Q/DQ nodes with TensorRT Model Optimizer, and build without a calibrator",
    "command",
    command="python -m modelopt.onnx.quantization --onnx_path=model.onnx --quantize_mode=int8",
)
_FRESH: Final = Fix(
    "If a calibration cache was given: make sure that it is of this very export; its tensors' names must agree"
)


@rule("TRT007", "missing-scales", Severity.WARNING)
def check(
    messages: TrtMessages, builds: TrtBuilds, layers: TrtLayers | None, nodes: OnnxNodes | None, sources: Sources
) -> Iterator[Finding]:
    """One finding a build."""
    for row in messages.of("missing-scale"):
        share = _int8_share(row, layers)
        reached = share >= 0.5 if share is not None else _calibration_reaches(row.subjects)
        number = f"{row.count} tensor{'s' if row.count > 1 else ''}"
        names = named(row.count, row.subjects)
        facts: dict[str, Fact] = {"tensors without scales": row.count, "tensors": list(row.subjects[:20])}
        if share is not None:
            facts["products in INT8"] = f"{share:.0%}"
        if reached:
            text = (
                f"INT8: {number} ({names}) have no scale, so the layers around them fall back to FP16 or FP32; "
                "for a few constants of a convolutional network this is normal."
            )
            yield from_record(row, text, Severity.NOTE, facts=facts, count=1, subject="few")
            continue
        attention = any(_TRANSFORMER.search(n) for n in row.subjects)
        why = "neither calibration nor Q/DQ nodes gave one"
        if attention:
            why = "calibration does not reach most of a network with attention and LayerNorm"
        number_of = major(row, builds)
        fixes = by_release(number_of, (_EXPLICIT, _FRESH), (_EXPLICIT,), (_EXPLICIT,))
        yield from_record(
            row,
            f"INT8 was allowed, but {number} ({names}) {'have' if row.count > 1 else 'has'} no scale: the layers "
            f"around {'them' if row.count > 1 else 'it'} fall back to FP16 or FP32, because {why}.",
            Severity.WARNING,
            code=places_of(row.subjects[:20], row, nodes, sources),
            facts=facts,
            fixes=fixes,
        )


def _calibration_reaches(names: Sequence[str]) -> bool:
    """Whether only constants lack scales, of a network that shows no sign of a transformer."""
    return all(_CONSTANT.search(n) for n in names) and not any(_TRANSFORMER.search(n) for n in names)


def _int8_share(row: TrtMessage, layers: TrtLayers | None) -> float | None:
    """Share of the engine's products and convolutions that read INT8, where the same input lists its layers."""
    if layers is None:
        return None
    for view in layers.engines:
        if view.key.partition("#")[0] == row.anchor.input:
            products = [
                t.layer for t in view.layers
                if re.search(r"conv|gemm|matrix|matmul|fullyconnected", t.layer.type, re.I) and t.layer.inputs
            ]  # fmt: skip
            if products:
                return sum(p.inputs[0].dtype == "int8" for p in products) / len(products)
    return None
