"""A slow arithmetic pipe limits a kernel, with few instructions

What it means
    A pipe is busy for at least 80% of its cycles although few instructions go there: each of them takes it many
    cycles, and everything else waits.

Why it happens
    FP64 on GPUs that have little of it, special functions, conversions between types, integer division.

How to confirm
    `ncu --section ComputeWorkloadAnalysis`: the pipe in percent of active cycles far above its executed instructions.

How to fix
    Move these instructions to a faster pipe: FP32 for FP64, approximate functions, fewer conversions.

Limits
    80, 20 and 25 are NVIDIA's thresholds. Judged of the metrics only: pages do not print them.

References
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#metrics-decoder
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.ncu.advice import against_compute, is_own
from necropsy.ncu.groups import Group
from necropsy.ncu.pipes import PIPES, SlowPipe, busiest, slow
from necropsy.ncu.story import Beside, Weight, bounded, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule


class Thresholds(Weight, frozen=True):
    """NVIDIA's, in percent: `busy` cycles from which, `issued` instructions below which, `apart` between the two."""

    busy: float = 80.0
    issued: float = 20.0
    apart: float = 25.0


@rule("KRN012", "slow-pipe", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(busiest(r, ()) is None for r in kernels.own):
        yield lacking("cycles and instructions of pipes", "ncu --section ComputeWorkloadAnalysis")
    for group in worth_telling(kernels, t):
        pipe = slow(group.row, t.busy, t.issued, t.apart)
        if pipe is not None:
            yield _finding(group, pipe, rules, t, (inductor, traces))


def _finding(group: Group, pipe: SlowPipe, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    words = PIPES[pipe.name]
    own = () if not is_own(group.row) else (Fix(words.fix, "code"),)
    return tell(
        "KRN012",
        group,
        f"{clause(group)} is limited by its {words.name} pipe ({words.does}): {pipe.percent:.0f}% busy with "
        f"instructions at {pipe.issued:.0f}% of its rate, since each takes many cycles.",
        t,
        beside=beside,
        gain=bounded((pipe.percent - pipe.issued) / 100, group),
        heard=said(rules, group, "slowpipe", "slow pipe"),
        facts={"slow pipe": f"{words.name}, {pipe.percent:.0f}% of cycles, {pipe.issued:.0f}% of instructions"},
        fixes=(*own, *against_compute(group.row)),
    )
