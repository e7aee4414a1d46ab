"""Some multiprocessors work much longer than others

What it means
    The kernel ends when its last multiprocessor is done. Here the busiest had work for much longer than the average
    one.

Why it happens
    Blocks with different amounts of work (ragged sequences, graphs, sparse rows), with the long ones started last.

How to confirm
    `ncu --section WorkloadDistribution`: maximum of SM active cycles above their average.

How to fix
    Start the long blocks first (sort by length), split them, or let blocks take work from a counter.

Limits
    Told where the grid is not the reason (KRN002, KRN005). An average below the maximum by 5% is NVIDIA's threshold;
    slices of L2 and memory channels that differ are no one's fault in a program of torch and are not told.

References
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#sections-and-rules
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.ncu.advice import BATCH, is_own
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule
from necropsy.trace.claim import part

_SORT: Final = Fix(
    "Start the longest work first (sort by length), split it, or let blocks fetch work from a counter", "code"
)
_SAME: Final = Fix("Give it work of equal length: bucket or pad sequences", "code")


class Thresholds(Weight, frozen=True):
    """When it counts: `lost`, what the average multiprocessor waits of the busiest one's time (NVIDIA's 5%)."""

    lost: float = 0.05


@rule("KRN015", "workload-imbalance", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(_lost(r) is None for r in kernels.own):
        yield lacking("active cycles of each multiprocessor", "ncu --section WorkloadDistribution")
    for group in worth_telling(kernels, t):
        lost, waves = _lost(group.row), group.row.value("launch__waves_per_multiprocessor")
        if lost is not None and lost >= t.lost and (waves is None or waves >= 1):
            yield _finding(group, lost, rules, t, (inductor, traces))


def _lost(row: NcuKernel) -> float | None:
    """Part of the busiest multiprocessor's time for which the average one has no work."""
    mean, most = row.value("sm__cycles_active.avg"), row.value("sm__cycles_active.max")
    return 1 - mean / most if mean is not None and most else None


def _finding(group: Group, lost: float, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    return tell(
        "KRN015",
        group,
        f"{clause(group)} keeps its busiest multiprocessor at work for longer than the average one, which idles for "
        f"{part(lost)} of that time: its blocks have uneven work.",
        t,
        beside=beside,
        gain=lost,
        heard=said(rules, group, "sms workload imbalance", "one or more sms have"),
        confidence=Confidence.LIKELY,
        facts={"average multiprocessor idle": part(lost)},
        fixes=(_SAME, BATCH) if not is_own(group.row) else (_SORT,),
    )
