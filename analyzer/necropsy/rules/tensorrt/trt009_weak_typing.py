"""Precision flags and calibrators: deprecated in TensorRT 10.12, gone in 11

What it means
    The build asks the builder to choose precisions (`--fp16`, `BuilderFlag.FP16`, INT8 calibrators,
    precision constraints). TensorRT 10.12 deprecates that, 11 has removed it: there a network has the
    types that its graph says, the flags do not exist, and a program that asks for them fails or
    silently builds in FP32.

Why it happens
    A script written for 8.x to 10.x runs on a newer release, often because `tensorrt` is not
    pinned.

How to confirm
    `python -c "import tensorrt; print(tensorrt.__version__)"`.

How to fix
    Put the types into the model: ModelOpt AutoCast for FP16 and BF16, Q/DQ nodes for INT8 and FP8; or pin
    the release the script was written for.

Limits
    Only deprecations and failures that are printed are seen; that an engine silently became FP32
    shows in its layers.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/api/migration/tensorrt-10x-to-11x.html
    - https://github.com/NVIDIA/TensorRT/issues/4581
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_exception, from_record
from necropsy.conditions import NO_ENGINE, PROCESS_DIED
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import failure, major

# What 11 removed (migration guide): flags and methods of weak typing, calibration and the algorithm selector.
_GONE: Final = re.compile(
    r"(?:BuilderFlag|IBuilderConfig|IBuilder|Builder|ILayer|I\w+Layer|ITensor|NetworkDefinitionCreationFlag|tensorrt\w*)'?"
    r" (?:object )?has no attribute '(?P<name>FP16|BF16|INT8|FP8|INT4|(?:OBEY|PREFER)_PRECISION_CONSTRAINTS"
    r"|STRICT_TYPES|EXPLICIT_BATCH|EXPLICIT_PRECISION|int8_calibrator|set_calibration_profile|algorithm_selector"
    r"|platform_has_fast_(?:fp16|int8)|IInt8\w*Calibrator2?|CalibrationAlgoType|precision|set_output_type|dynamic_range"
    r"|set_dynamic_range)'"
)
_REMOVED_OPTION: Final = re.compile(
    r"--(?:fp16|bf16|int8|fp8|int4|best|calib|precisionConstraints|layerPrecisions|layerOutputTypes|stronglyTyped)\b"
)
_CAST: Final = Fix(
    "Put the types into the model: FP16 or BF16 by ModelOpt's AutoCast, INT8 and FP8 by Q/DQ nodes",
    "command",
    command="python -m modelopt.onnx.autocast --onnx_path model.onnx --low_precision_type fp16",
)
_WITHOUT: Final = Fix("Take precision flags and requests out of the script, or create a weakly typed network", "code")
_PIN: Final = Fix(
    "Or stay on the release that the script was written for", "config", command='pip install "tensorrt<11"'
)


def is_precision_option(option: str) -> bool:
    """Whether an option of trtexec belongs to weak typing."""
    return _REMOVED_OPTION.match(option) is not None


@rule("TRT009", "weak-typing", Severity.WARNING)
def check(messages: TrtMessages | None, builds: TrtBuilds | None, exceptions: Exceptions) -> Iterator[Finding]:
    """Exceptions about what is gone, options that are unknown, deprecations."""
    for row in exceptions:
        if (m := _GONE.search(f"{row.name}: {row.text}")) is not None:
            yield from_exception(
                row,
                f"{m['name']} is not in this TensorRT: release 11 removed weak typing (precision flags, calibrators, "
                "precision constraints), so that the engine is not built.",
                facts={"missing": m["name"]},
                fixes=(_CAST, _PIN),
                leaves=frozenset({NO_ENGINE, PROCESS_DIED}),
            )
    if messages is None or builds is None:
        return
    for message in messages.of("unknown-option"):
        if _REMOVED_OPTION.match(option := message.words.get("option", "")):
            yield failure(
                message,
                f"trtexec does not know {option}: TensorRT 11 removed weak typing, and with it this option; nothing "
                "was built.",
                builds,
                exceptions,
                facts={"option": option},
                fixes=(_CAST, _PIN),
            )
    for message in messages.of("strong-flag"):
        asked = message.words.get("flag") or message.words.get("call", "a precision")
        yield failure(
            message,
            f"{asked} is asked for in a strongly typed network, whose types the model alone tells: the build fails.",
            builds,
            exceptions,
            facts={"asked for": asked},
            fixes=(_CAST, _WITHOUT),
        )
    for message in messages.of("weak-typing"):
        number = major(message, builds)
        if flag := message.words.get("flag"):
            text = f"TensorRT 11 has no {flag} builder flag, and the program went on without: the engine is FP32."
        else:
            what = message.words.get("option") or "weak typing (precision flags, calibrators)"
            text = f"{what} is deprecated and gone from TensorRT 11 on, where types come from the model alone."
        old = number is not None and number < 11
        yield from_record(
            message,
            text,
            Severity.NOTE if old and not flag else Severity.WARNING,
            fixes=(_CAST,) if old else (_CAST, _PIN),
            subject=text[:60],
        )
