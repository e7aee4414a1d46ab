"""The last, partial wave of a kernel's blocks leaves part of the GPU idle

What it means
    Blocks run in waves of as many as fit. If the last wave is a small one, most multiprocessors have nothing to do
    while it runs: with few waves that is a large part of the kernel's time.

Why it happens
    The number of blocks is a little more than a multiple of what fits at once.

How to confirm
    `ncu --section LaunchStats --section SpeedOfLight`: Waves Per SM such as 1.1 or 2.2, and SM Active Cycles below
    Elapsed Cycles.

How to fix
    Choose block or tile sizes so that the blocks fill whole waves, use more and smaller blocks, or as many blocks as
    fit with a loop in each (persistent kernel). From Python: another batch size, or `mode="max-autotune"`.

Limits
    NVIDIA's rule takes all blocks for equally long and tells 1 / (waves + 1) as lost. Here the part of the last wave
    that has blocks is no loss, and no more than the measured idle part of the multiprocessors counts, so that
    kernels whose blocks overlap well are not accused; where it was not measured, nothing is said. `gain` is NVIDIA's
    20% as a bound of the waves' arithmetic.

References
    - https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html#wave-quant
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.ncu.advice import BATCH, TUNE, is_own
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule
from necropsy.trace.claim import part

_WAVES: Final = "launch__waves_per_multiprocessor"
_PERSIST: Final = Fix(
    "Launch as many blocks as fit at once, each with a loop over its part, or smaller blocks", "code"
)  # fmt: skip


class Thresholds(Weight, frozen=True):
    """When a tail counts.

    `gain`: part of the time by the number of waves (NVIDIA's 0.2); `idle`: what is lost of the GPU.
    """

    gain: float = 0.2
    idle: float = 0.1


@rule("KRN005", "tail-effect", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(r.value(_WAVES) is None or r.active is None for r in kernels.own):
        yield lacking("waves and active cycles", "ncu --section LaunchStats --section SpeedOfLight")
    for group in worth_telling(kernels, t):
        lost = _lost(group.row, t)
        if lost is not None:
            yield _finding(group, lost, rules, t, (inductor, traces))


def _lost(row: NcuKernel, t: Thresholds) -> float | None:
    """Part of the time that the tail costs: by the waves, and at most what was idle."""
    waves, active = row.value(_WAVES), row.active
    if waves is None or waves < 1 or active is None or row.value("launch__cluster_size") not in (None, 0.0, 1.0):
        return None
    full = math.floor(waves + 1e-3)
    partial = waves - full
    if partial < 1e-3 or 1 / (full + 1) < t.gain:
        return None
    lost = min((1 - partial) / (full + 1), 1 - active)
    return lost if lost >= t.idle else None


def _finding(group: Group, lost: float, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    row = group.row
    waves = row.value(_WAVES) or 0.0
    full = math.floor(waves + 1e-3)
    return tell(
        "KRN005",
        group,
        f"{clause(group)} runs its blocks in {full} full wave{'s' * (full > 1)} and one of {part(waves - full)} of a "
        f"wave, during which most multiprocessors idle: {part(lost)} of its time.",
        t,
        beside=beside,
        gain=lost,
        heard=said(rules, group, "tail effect", "partial wave of"),
        facts={"waves": round(waves, 2)},
        fixes=(BATCH, TUNE) if not is_own(row) else (_PERSIST,),
    )
