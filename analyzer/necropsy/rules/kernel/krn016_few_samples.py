"""Too few samples were taken of short kernels to trust what rests on them

What it means
    Nsight Compute samples warps and counters at an interval. Of a kernel that is not much longer than the interval
    there are a handful of samples: stalls by source line and curves over time are chance.

Why it happens
    The default interval is chosen for kernels of milliseconds.

How to confirm
    The interval (`smsp__pcsamp_interval_cycles`) beside the kernel's elapsed cycles, or the warning of the section
    PM Sampling.

How to fix
    Collect again with a shorter interval.

Limits
    Metrics that are counted, as those that all other rules rest on, are not concerned. Told once an input, of kernels
    with at least `share` of the profiled time; 10% is NVIDIA's threshold.

References
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#pm-sampling
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.finding import Cost, Finding, Fix, Severity
from necropsy.ncu.claim import about
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Weight, said, worth_telling
from necropsy.rule import rule

_INTERVAL: Final = "smsp__pcsamp_interval_cycles"
_FIX: Final = Fix(
    "Sample more often", "flag", command="ncu --sampling-interval 0 --pm-sampling-interval 1000 --set full ..."
)


class Thresholds(Weight, frozen=True):
    """When samples are few: `part` of the kernel's cycles from which the interval is too long (NVIDIA's 10%)."""

    part: float = 0.1


@rule("KRN016", "few-samples", Severity.NOTE, settings=Thresholds)
def check(kernels: NcuKernels, rules: NcuRules, t: Thresholds) -> Iterator[Finding]:
    """One note an input."""
    by_input: dict[str, list[Group]] = {}
    for group in worth_telling(kernels, t):
        if _few(group, rules, t):
            by_input.setdefault(group.row.anchor.input, []).append(group)
    for name, few in by_input.items():
        kinds = f"{len(few)} kernels" if len(few) > 1 else "one kernel"
        yield about(
            few[0],
            f"Of {kinds} there are few samples, since the sampling interval is above {t.part:.0%} of their time: "
            "stalls by source line and curves over time are chance there, counted metrics are not concerned.",
            Severity.NOTE,
            cost=Cost(),
            facts={"kernels": sorted({g.row.function for g in few})[:8]},
            fixes=(_FIX,),
            event=f"samples@{name}",
            subject="samples",
        )


def _few(group: Group, rules: NcuRules, t: Thresholds) -> bool:
    interval, cycles = group.row.value(_INTERVAL), group.row.value("gpc__cycles_elapsed.max")
    if interval is not None and cycles is not None and interval > t.part * cycles:
        return True
    return bool(said(rules, group, "sampling interval is larger", kinds=("WRN", "INF", "OPT", "ERR")))
