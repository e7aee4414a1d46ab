"""Entropy calibration clips far below the largest value

What it means
    Two calibrators saw the same network. MinMax keeps the largest value that occurred; entropy
    calibration (KL divergence) chose a range well below it for some tensors, so that their largest
    values are clipped.

Why it happens
    The tensor has a long tail: few values far from the rest. Clipping them is what entropy
    calibration is for, and right for many convolutions; where the tail carries the answer (attention,
    detection heads, activations without an upper bound) it costs accuracy.

How to confirm
    Compare accuracy of engines built with either cache, or the layer's output in FP32 and INT8
    for an input with large values.

How to fix
    Keep entropy where accuracy holds. Else calibrate these tensors by a percentile
    (99.9 or 99.99 in pytorch-quantization and ModelOpt, as Q/DQ nodes), or leave the layers in FP16.

Limits
    A note: which is better, the files do not tell. Needs caches of both calibrators for one
    network. TensorRT 11 has no calibrators.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/archives/tensorrt-861/developer-guide/index.html
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.claim import from_record
from necropsy.evidence.calibration import Calibration
from necropsy.finding import Finding, Fix, Related, Severity
from necropsy.rule import rule
from necropsy.rules.quantization._caches import anchor_of, drifts, label, pairs, shown


class Thresholds(Struct, frozen=True):
    """`clipped`: part of MinMax's range that the other calibrator leaves out."""

    clipped: float = 0.1


@rule("QNT011", "clipped-tails", Severity.NOTE, settings=Thresholds)
def check(calibration: Calibration, t: Thresholds) -> Iterator[Finding]:
    """One note a pair of caches of two calibrators, one of them MinMax."""
    caches = calibration.caches
    for a, b in pairs(caches, same_calibrator=False):
        minmax, other = (a, b) if a.calibrator.startswith("MinMax") else (b, a)
        if not minmax.calibrator.startswith("MinMax") or other.calibrator.startswith("MinMax"):
            continue
        both = drifts(minmax, other)
        cut = sorted((d for d in both if 1 - d.ratio > t.clipped), key=lambda d: d.ratio)
        if not cut:
            continue
        worst = cut[0]
        yield from_record(
            other,
            f"{label(other, caches)} ({other.calibrator}) clips {len(cut)} of {len(both)} tensors below what "
            f"{label(minmax, caches)} saw, most of all {shown(worst.tensor)} at {worst.second.range:.4g} of "
            f"{worst.first.range:.4g}: its largest {100 * (1 - worst.ratio):.0f}% of the range are lost.",
            Severity.NOTE,
            anchor=anchor_of(other, worst.second),
            related=(Related(anchor_of(minmax, worst.first), f"the same tensor in {label(minmax, caches)}"),),
            facts={
                "clipped": [f"{shown(d.tensor)}: {d.second.range:.4g} of {d.first.range:.4g}" for d in cut[:8]],
                "calibrators": f"{minmax.calibrator}, {other.calibrator}",
            },
            fixes=(
                Fix(
                    "Evaluate engines of both caches; where the clipped one is worse, calibrate by a percentile (99.9)"
                ),
            ),
        )
