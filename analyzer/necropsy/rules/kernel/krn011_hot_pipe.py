"""One arithmetic pipe of a kernel is at its limit

What it means
    A multiprocessor has a pipe for each kind of instruction: FMA and ALU for FP32 and integers, XU for special
    functions, LSU for memory, FP64, tensor cores. One of them is busy most of the time; others have room.

Why it happens
    The kernel's instructions are mostly of one kind: integer arithmetic of indices (ALU), `exp` and `sin` (XU),
    many small accesses (LSU).

How to confirm
    `ncu --section ComputeWorkloadAnalysis`: the pipe's utilization, in percent of active cycles.

How to fix
    Move work to another pipe (16-bit pairs, tensor cores, tables), or do less of it: fewer index computations, wider
    accesses, approximate functions.

Limits
    A note: a hot pipe of arithmetic is what a good kernel of that arithmetic has. 80% is NVIDIA's threshold for a
    bottleneck. Hot tensor cores are KRN004's, a busy pipe that issues little KRN012's. That all pipes are below 20%
    says that arithmetic is not the limit, no more: what is, KRN001 and KRN003 tell. Only where their metrics were not
    collected (`--section SpeedOfLight`), a note says it here.

References
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#metrics-decoder
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Cost, Finding, Fix, Severity
from necropsy.ncu.advice import against_compute, is_own
from necropsy.ncu.figures import compute, feeds_tensor_cores
from necropsy.ncu.groups import Group
from necropsy.ncu.pipes import PIPES, Pipe, busiest
from necropsy.ncu.story import Beside, Weight, clause, tell, worth_telling
from necropsy.rule import Judged, lacking, rule

_COLLECT = Fix(
    "Collect what it waits for", "command",
    command="ncu --section SpeedOfLight --section SchedulerStats --section WarpStateStats --section Occupancy",
)  # fmt: skip


class Thresholds(Weight, frozen=True):
    """When a pipe is hot: `busy`, percent of its peak (NVIDIA's 80); `much`: part of the profiled time from which.

    `idle`: percent of its peak below which the busiest pipe, and so each, is idle (NVIDIA's 20).
    """

    busy: float = 80.0
    much: float = 0.03
    idle: float = 20.0


@rule("KRN011", "hot-pipe", Severity.NOTE, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One note a kernel, grid and place."""
    if kernels.own and all(busiest(r, rules.of(r.seq)) is None for r in kernels.own):
        yield lacking("utilization of pipes", "ncu --section ComputeWorkloadAnalysis")
    for group in worth_telling(kernels, t):
        pipe = busiest(group.row, rules.of(group.row.seq))
        if pipe is None or pipe.name not in PIPES or not (group.share is None or group.share >= t.much):
            continue
        if pipe.percent >= t.busy:
            yield _finding(group, pipe, t, (inductor, traces))
        elif pipe.percent < t.idle and compute(group.row) is None and not feeds_tensor_cores(group.row):
            yield _idle(group, pipe, t, (inductor, traces))


def _finding(group: Group, pipe: Pipe, t: Thresholds, beside: Beside) -> Finding:
    words = PIPES[pipe.name]
    own = () if not is_own(group.row) else (Fix(words.fix, "code"),)
    return tell(
        "KRN011",
        group,
        f"{clause(group)} keeps its {words.name} pipe ({words.does}) busy for {pipe.percent:.0f}% of what it can: "
        "other kinds of instructions would cost nothing.",
        t,
        beside=beside,
        note=True,
        cost=Cost(),
        facts={"busiest pipe": f"{words.name}, {pipe.percent:.0f}%"},
        fixes=(*own, *against_compute(group.row)),
    )


def _idle(group: Group, pipe: Pipe, t: Thresholds, beside: Beside) -> Finding:
    words = PIPES[pipe.name]
    return tell(
        "KRN011",
        group,
        f"{clause(group)} leaves all its arithmetic pipes idle, the busiest ({words.name}) at {pipe.percent:.0f}% of "
        "what it can: it waits for memory or for more warps, and which of them was not collected.",
        t,
        beside=beside,
        note=True,
        cost=Cost(),
        facts={"busiest pipe": f"{words.name}, {pipe.percent:.0f}%"},
        fixes=(_COLLECT,),
    )
