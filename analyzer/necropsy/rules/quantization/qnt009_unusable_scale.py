"""Calibration found scales with which nothing can be quantized

What it means
    A tensor's scale in the calibration cache is zero, not finite, or smaller than any
    normal float. Layers at that tensor cannot run in INT8: TensorRT reports missing scales and takes
    FP16 or FP32, or the tensor becomes all zeros.

Why it happens
    The tensor was zero in every calibration batch (dead units, images that were not normalized or
    are empty), a batch held NaN or infinite values, or it is a constant that needs no scale.

How to confirm
    Run the calibration data through the model in the framework and look at that tensor's
    minimum and maximum.

How to fix
    Mend the calibration data, delete the cache and calibrate again; a cache that is found is used
    without looking at the data.

Limits
    Scales of constants are zero in every cache and not counted. TensorRT 11 has no calibrators.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/archives/tensorrt-861/developer-guide/index.html
    - https://github.com/NVIDIA/TensorRT/issues/993
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.tensorrt.calibration import CalibrationCache

from necropsy.claim import from_record
from necropsy.evidence.calibration import Calibration
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.quantization._caches import anchor_of, label, shown, usable

# Weights and constants are quantized by their own values, calibration leaves their scale at zero.
_CONSTANT: Final = re.compile(
    r"\[Constant\]|^onnx::\w+_\d+$|\.(?:weight|bias)\b|_weight$|_bias$|(?:^|/)Constant(?:_\d+)?_output"
)


@rule("QNT009", "unusable-scale", Severity.ERROR)
def check(calibration: Calibration) -> Iterator[Finding]:
    """One finding a cache."""
    for cache in calibration.caches:
        bad = [s for s in cache.scales if not usable(s.scale) and not (s.scale == 0 and _CONSTANT.search(s.tensor))]
        if not bad:
            continue
        names = ", ".join(shown(s.tensor) for s in bad[:3])
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        yield from_record(
            cache,
            f"Calibration found no usable scale for {names}{more} ({_kind(bad[0].scale)}) in "
            f"{label(cache, calibration.caches)}: these tensors cannot be INT8.",
            Severity.ERROR
            if _all_bad(cache) or any(not math.isfinite(s.scale) or s.scale < 0 for s in bad)
            else Severity.WARNING,
            anchor=anchor_of(cache, bad[0]),
            facts={
                "scales": [f"{s.tensor}: {s.scale:.6g} (line {s.line})" for s in bad[:8]],
                "tensors": len(cache.scales),
            },
            fixes=(
                Fix("Look at the calibration data: are these tensors zero or not finite in the framework, too?"),
                Fix("Delete the cache and calibrate again; a cache that is found is used unseen", "command"),
            ),
        )


def _all_bad(cache: CalibrationCache) -> bool:
    return all(not usable(s.scale) for s in cache.scales)


def _kind(scale: float) -> str:
    if math.isnan(scale):
        return "not a number"
    if math.isinf(scale):
        return "infinite"
    if scale < 0:
        return "negative"
    return "zero" if scale == 0 else "smaller than any normal float"
