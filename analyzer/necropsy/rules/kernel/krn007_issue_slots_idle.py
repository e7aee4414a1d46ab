"""Schedulers of a kernel rarely have an instruction to issue

What it means
    Each scheduler could issue an instruction a cycle, and has a ready warp in less than 0.6 of the cycles, while
    neither memory nor arithmetic is near its peak.

Why it happens
    All its warps wait at once: too few of them, or each too long. KRN008, KRN009 and KRN010 tell which, where the
    sections for them were collected; this rule speaks where they were not.

How to confirm
    `ncu --section SchedulerStats`: Issued Warp Per Scheduler below 0.6, and Eligible Warps Per Scheduler below 1.

How to fix
    Collect `--section WarpStateStats --section Occupancy`, which tell the reason. From Python: more work at once.

Limits
    0.6 is NVIDIA's threshold.

References
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#sections-and-rules
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.ncu.advice import against_latency
from necropsy.ncu.figures import issue, latency_bound
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, bounded, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule
from necropsy.trace.claim import part

_ELIGIBLE: Final = "smsp__warps_eligible.avg.per_cycle_active"
_COLLECT: Final = Fix(
    "Collect what its warps wait for", "command", command="ncu --section WarpStateStats --section Occupancy"
)


class Thresholds(Weight, frozen=True):
    """NVIDIA's thresholds.

    `issue`: part of active cycles with an instruction; `low`: percent of both peaks below which it matters.
    """

    issue: float = 0.6
    low: float = 60.0


@rule("KRN007", "issue-slots-idle", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(issue(r) is None or latency_bound(r) is None for r in kernels.own):
        yield lacking("issued instructions", "ncu --section SchedulerStats --section SpeedOfLight")
    for group in worth_telling(kernels, t):
        slots = issue(group.row)
        if slots is not None and slots < t.issue and latency_bound(group.row, t.low):
            yield _finding(group, slots, rules, t, (inductor, traces))


def _finding(group: Group, slots: float, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    row = group.row
    ready = row.value(_ELIGIBLE)
    warps = f" ({ready:.2f} ready warps a scheduler)" if ready is not None else ""
    return tell(
        "KRN007",
        group,
        f"{clause(group)} issues an instruction in {part(slots)} of its schedulers' cycles{warps}: all its warps wait "
        "at once, for what was not collected.",
        t,
        beside=beside,
        gain=bounded(1 - slots, group),
        heard=said(rules, group, "scheduler is capable of issuing"),
        facts={} if ready is None else {"ready warps a scheduler": round(ready, 2)},
        fixes=(*against_latency(row), _COLLECT),
    )
