"""Where INT8 scales come from: placeholders, a calibrator, or Q/DQ nodes

What it means
    INT8 needs a scale for each tensor. They come from Q/DQ nodes in the model (explicit quantization: trained
    with them, QAT, or put there after training, PTQ), from a calibrator that measures activations (PTQ, up to
    TensorRT 10), or from trtexec itself, which without either gives every tensor the range [-4, 4]. Engines of the
    last kind can be timed, but their outputs mean nothing.

Why it happens
    `trtexec --int8` on a model without Q/DQ nodes and without `--calib`.

How to confirm
    "Calibrator is not being used" and "Setting dynamic range for ... to [-4,4]" in a verbose log.

How to fix
    Quantize the model with Q/DQ nodes (ModelOpt); up to TensorRT 10 a calibration cache does it, too.

Limits
    Whether Q/DQ nodes were trained (QAT: weights adapted, learned ranges) or calibrated (PTQ: frozen weights, static
    ranges) cannot be seen in a log; the error comes from the ranges either way, and from the weights only in PTQ.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html
    - https://github.com/NVIDIA/TensorRT/blob/main/samples/common/sampleEngines.cpp
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_record
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import by_release, failure, major

_EXPLICIT: Final = Fix(
    "Quantize the model with Q/DQ nodes", "command",
    command="python -m modelopt.onnx.quantization --onnx_path=model.onnx --quantize_mode=int8",
)  # fmt: skip
_CALIBRATE: Final = Fix(
    "Or calibrate it, and give trtexec the cache", "flag", command="trtexec --int8 --calib=calibration.cache ..."
)


@rule("TRT032", "int8-scale-source", Severity.WARNING, aliases=("qat-or-ptq",))
def check(messages: TrtMessages, builds: TrtBuilds, exceptions: Exceptions) -> Iterator[Finding]:
    """One finding a build."""
    for row in messages.of("calibration-failed"):
        yield failure(
            row,
            "INT8 calibration gave no scales (no calibrator, or none of its ranges fits a tensor of this network): no "
            "engine is built.",
            builds,
            exceptions,
            fixes=by_release(major(row, builds), (_EXPLICIT, _CALIBRATE), (_EXPLICIT,), (_EXPLICIT,)),
            subject="failed",
        )
    for row in messages.of("no-calibrator", "calibrator-unused"):
        build = builds.of(row)
        if row.kind == "calibrator-unused" or (build is not None and build.quantized):
            yield from_record(
                row,
                "INT8 scales come from the Q/DQ nodes of the model (explicit quantization); no calibrator is used, and "
                "none is needed.",
                Severity.NOTE,
                subject="explicit",
            )
            continue
        ranges = build.placeholder_ranges if build is not None else 0
        tool = build is not None and "trtexec" in build.tool and "calib" not in build.flags
        if not ranges and not tool:
            yield from_record(
                row,
                "INT8 is allowed without a calibrator: only tensors whose dynamic range (scale) the program sets "
                "itself "
                "run in INT8, all others fall back.",
                Severity.NOTE,
                subject="own",
            )
            continue
        facts: dict[str, Fact] = {"placeholder ranges": ranges} if ranges else {}
        count = f"{ranges} tensors" if ranges else "all tensors"
        yield from_record(
            row,
            f"INT8 without calibration: trtexec gave {count} the placeholder range [-4, 4] instead of scales, so "
            "that the "
            "engine's times count, but its outputs are meaningless.",
            Severity.WARNING,
            facts=facts,
            fixes=by_release(major(row, builds), (_EXPLICIT, _CALIBRATE), (_EXPLICIT,), (_EXPLICIT,)),
        )
