"""Few threads of a kernel's warps are active

What it means
    The 32 threads of a warp run one instruction together. Where they take different branches, or are switched off
    by a condition, an instruction does the work of few.

Why it happens
    Branches that depend on the data of a thread, loops of different lengths, work for some threads of a warp only
    (one thread a row, tails of blocks).

How to confirm
    `ncu --section WarpStateStats`: Avg. Active Threads Per Warp, and Avg. Not Predicated Off Threads Per
    Warp, below 24.

How to fix
    Sort or group the data so that neighbouring threads do alike, replace branches by arithmetic, give a warp a whole
    row instead of a thread.

Limits
    24 of 32 is NVIDIA's threshold. It matters where instructions are the limit: the cost is the missing part of the
    threads times how busy the multiprocessors are.

References
    - https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#branching-and-divergence
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.ncu.advice import against_latency, is_own
from necropsy.ncu.figures import compute
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule

WARP = 32
_ACTIVE: Final = "smsp__thread_inst_executed_per_inst_executed.ratio"
_PREDICATED: Final = "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
_GROUP: Final = Fix(
    "Let the threads of a warp do alike: group the data, or give a row to a warp instead of a thread", "code"
)


class Thresholds(Weight, frozen=True):
    """When divergence counts: `threads` of 32 below which (NVIDIA's 24)."""

    threads: float = 24.0


@rule("KRN014", "thread-divergence", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(_threads(r) is None for r in kernels.own):
        yield lacking("active threads of a warp", "ncu --section WarpStateStats")
    for group in worth_telling(kernels, t):
        threads = _threads(group.row)
        if threads is not None and 0 < threads < t.threads:
            yield _finding(group, threads, rules, t, (inductor, traces))


def _threads(row: NcuKernel) -> float | None:
    """Threads that do the work of an instruction, of 32."""
    known = [v for name in (_ACTIVE, _PREDICATED) if (v := row.value(name)) is not None]
    return min(known, default=None)


def _finding(group: Group, threads: float, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    row = group.row
    active = row.value(_ACTIVE)
    why = "its threads take different branches" if active is not None and active < t.threads else (
        "conditions switch the others off"
    )  # fmt: skip
    return tell(
        "KRN014",
        group,
        f"{clause(group)} has {threads:.1f} of {WARP} threads of a warp at work in an average instruction: {why}.",
        t,
        beside=beside,
        gain=(1 - threads / WARP) * (compute(row) or 100.0) / 100,
        heard=said(rules, group, "threaddivergence", "threads being active per cycle", "predication"),
        facts={"threads at work": f"{threads:.1f} of {WARP}"},
        fixes=against_latency(row) if not is_own(row) else (_GROUP,),
    )
