"""A kernel reaches neither the peak of arithmetic nor that of memory

What it means
    While the kernel runs, both sides of the GPU are mostly unused: it waits, for data, for its own
    results, or for lack of warps. A faster memory or faster arithmetic would not help it.

Why it happens
    Too few warps to hide the latency of memory, long chains of dependent instructions, barriers, or
    too little work in all. The deeper cause has rules of its own (grid, occupancy, stalls, access
    pattern); this one speaks where none of their metrics were collected or none of them holds.

How to confirm
    `ncu --section SpeedOfLight`: Compute (SM) Throughput and Memory Throughput both below 60%.

How to fix
    Collect what tells the reason: `ncu --section SchedulerStats --section WarpStateStats --section
    Occupancy`. From Python: larger batches, fused operations (`torch.compile`).

Limits
    60% is the threshold of NVIDIA's own rule (SOLBottleneck). The cost is a ceiling: what would be saved if
    the busier side ran at its peak. Kernels below `share` of the profiled time are passed over.

References
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#sections-and-rules
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.ncu.advice import against_latency
from necropsy.ncu.figures import compute, headroom, latency_bound, memory
from necropsy.ncu.groups import Group
from necropsy.ncu.pipes import PIPES, busiest
from necropsy.ncu.story import Beside, Weight, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule

_COLLECT = Fix(
    "Collect what it waits for", "command",
    command="ncu --section SpeedOfLight --section Occupancy --section SchedulerStats --section WarpStateStats",
)  # fmt: skip


class Thresholds(Weight, frozen=True):
    """`low`: percent of peak below which both sides are (NVIDIA's 60); the others are those of all such rules."""

    low: float = 60.0


@rule("KRN001", "latency-bound", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(latency_bound(r) is None for r in kernels.own):
        yield lacking("throughput of compute and memory", "ncu --section SpeedOfLight")
    for group in worth_telling(kernels, t):
        if latency_bound(group.row, t.low):
            yield _finding(group, rules, t, (inductor, traces))


def _finding(group: Group, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    row = group.row
    waits = bool(row.stalls)
    return tell(
        "KRN001",
        group,
        f"{clause(group)} reaches {compute(row):.0f}% of the peak of arithmetic and {memory(row):.0f}% of that of "
        f"memory: it is bound by latency{'' if waits else ', and what it waits for was not collected'}.",
        t,
        beside=beside,
        gain=headroom(row),
        heard=said(rules, group, "latency issue", "low compute throughput and memory bandwidth"),
        facts=_pipe(row, rules),
        fixes=(*against_latency(row), *(() if waits else (_COLLECT,))),
    )


def _pipe(row: NcuKernel, rules: NcuRules) -> dict[str, Fact]:
    """The busiest pipe, where it is told: of a kernel that waits all are idle."""
    pipe = busiest(row, rules.of(row.seq))
    return (
        {}
        if pipe is None or pipe.name not in PIPES
        else {"busiest pipe": f"{PIPES[pipe.name].name}, {pipe.percent:.0f}%"}
    )
