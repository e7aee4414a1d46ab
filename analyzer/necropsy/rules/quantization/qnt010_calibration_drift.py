"""Two calibrations of one network differ

What it means
    The same calibrator found other ranges for the same tensors. An engine built with the narrower
    ones clips what the other data holds; one built with the wider ones spends its 256 steps on
    values that do not occur. Either costs accuracy.

Why it happens
    The calibration data is not what the model sees in use: other normalization, other
    brightness or loudness, another data set, too few batches.

How to confirm
    Compare the statistics of the input in calibration and in use; run the evaluation with both
    engines.

How to fix
    Calibrate with a sample of what the model really sees, preprocessed by the same code, and
    delete the old cache. If the input itself drifted, mend the preprocessing first: the ratio
    of the input's scales then runs through all tensors.

Limits
    The bound of 15% is an article's, which expects 3.2 points of accuracy behind it; what it
    costs your model is known after evaluating. Only caches that are analyzed together are
    compared. TensorRT 11 has no calibrators: compare the scales of Q/DQ nodes there.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/archives/tensorrt-861/developer-guide/index.html
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from msgspec import Struct

from necropsy_parsers.tensorrt.calibration import CalibrationCache

from necropsy.claim import from_record
from necropsy.evidence.calibration import Calibration
from necropsy.finding import Finding, Fix, Related, Severity
from necropsy.rule import rule
from necropsy.rules.quantization._caches import Drift, anchor_of, drifts, label, pairs, shown


class Thresholds(Struct, frozen=True):
    """`deviation` of a scale, and `part` of all tensors that exceed it, for a warning; fewer are a note."""

    deviation: float = 0.15
    part: float = 0.1


@rule("QNT010", "calibration-drift", Severity.WARNING, settings=Thresholds)
def check(calibration: Calibration, t: Thresholds) -> Iterator[Finding]:
    """One finding a pair of caches."""
    for a, b in pairs(calibration.caches, same_calibrator=True):
        both = drifts(a, b)
        far = [d for d in both if abs(d.ratio - 1) > t.deviation]
        if far:
            yield _finding(a, b, both, far, t, calibration.caches)


def _finding(
    a: CalibrationCache,
    b: CalibrationCache,
    both: Sequence[Drift],
    far: Sequence[Drift],
    t: Thresholds,
    caches: Sequence[CalibrationCache],
) -> Finding:
    first, second = label(a, caches), label(b, caches)
    typical = math.exp(statistics.median(math.log(d.ratio) for d in both))
    entrance = next((d for d in _in_order(a, both) if abs(d.ratio - 1) > t.deviation), far[0])
    source = _in_order(a, both)[0]
    from_input = source is entrance and abs(source.ratio - 1) > t.deviation
    where = f"already the input {source.tensor}" if from_input else f"first of all at {shown(entrance.tensor)}"
    wider = second if typical >= 1 else first
    return from_record(
        b,
        f"{len(far)} of {len(both)} tensors have scales in {second} that differ by more than {100 * t.deviation:.0f}% "
        f"from {first}, {where} ({_times(entrance.ratio)}, in the median {_times(typical)}): an engine of one clips or "
        f"wastes range on the data of the other.",
        Severity.WARNING if len(far) >= t.part * len(both) else Severity.NOTE,
        anchor=anchor_of(b, entrance.second),
        related=(Related(anchor_of(a, entrance.first), f"the same tensor in {first}"),),
        facts={
            "largest": [
                f"{shown(d.tensor)}: {d.first.range:.4g} to {d.second.range:.4g} ({_times(d.ratio)})" for d in far[:6]
            ],
            "wider ranges in": wider,
            "calibrator": a.calibrator,
        },
        fixes=(
            Fix("Compare how the two calibrations preprocess their input, and what data they use", "investigate")
            if from_input
            else Fix("See which calibration data the model meets in use, and calibrate with that", "investigate"),
            Fix(f"Evaluate the engine built with {wider}: its ranges hold the values of both", "command"),
        ),
    )


def _in_order(cache: CalibrationCache, both: Sequence[Drift]) -> list[Drift]:
    """Drifts in the order of the first cache, which is that of the network."""
    return sorted(both, key=lambda d: d.first.line)


def _times(ratio: float) -> str:
    return f"{ratio:.2f} times"
