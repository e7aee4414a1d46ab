"""Warps of a kernel mostly wait for one thing

What it means
    Schedulers have cycles without an instruction to issue, and between two instructions a warp spends
    most of its cycles waiting for one reason: data from memory, a barrier, a full queue, a result.

Why it happens
    Waiting for memory (`long scoreboard`): too few loads are in flight for its latency. Barrier: uneven
    work in a block. Queues (`MIO`, `LG throttle`): many small accesses. Wait: chains of dependent
    instructions. Math pipe: many instructions of one kind.

How to confirm
    `ncu --section SchedulerStats --section WarpStateStats`: the reason's cycles beside Warp Cycles Per
    Issued Instruction. `--section SourceCounters` and `-lineinfo` show the lines in the kernel.

How to fix
    In a kernel of one's own by reason; the finding says which. Kernels of torch and its libraries are not
    changed, but given more or fused work from Python.

Limits
    Told of kernels only that reach neither the peak of memory nor of arithmetic: others have to wait. `issue`
    and `most` are NVIDIA's 0.8 and 30%. Ready warps that were not chosen are no stall.

References
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#statistical-sampler
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.ncu_rules import NcuRule, NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Severity
from necropsy.ncu.advice import against_latency, is_own
from necropsy.ncu.figures import compute, issue, latency_bound, memory
from necropsy.ncu.groups import Group
from necropsy.ncu.stalls import REASONS, Stall, against, dominant
from necropsy.ncu.story import Beside, Weight, bounded, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule
from necropsy.trace.claim import part

_SAID = ("cycles being stalled",)


class Thresholds(Weight, frozen=True):
    """NVIDIA's thresholds.

    `issue`: part of active cycles with an instruction issued from which nothing is lost; `most`: part of the cycles
    between two instructions from which a reason dominates; `low`: percent of both peaks below which it matters.
    """

    issue: float = 0.8
    most: float = 0.3
    low: float = 60.0


@rule("KRN008", "dominant-stall", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and not any(_told(r, rules) for r in kernels.own):
        yield lacking(
            "what warps wait for", "ncu --section WarpStateStats --section SchedulerStats --section SpeedOfLight"
        )
    for group in worth_telling(kernels, t):
        if not latency_bound(group.row, t.low):
            continue
        heard = said(rules, group, *_SAID)
        stall, slots = dominant(group.row, heard), issue(group.row)
        if stall is not None and stall.share >= t.most and (slots is None or slots < t.issue):
            yield _finding(group, stall, heard, t, (inductor, traces))


def _told(row: NcuKernel, rules: NcuRules) -> bool:
    """Whether it is known what warps wait for, and whether that matters."""
    known = row.has("WarpStateStats") or dominant(row, rules.of(row.seq)) is not None
    return known and latency_bound(row) is not None


def _finding(group: Group, stall: Stall, heard: list[NcuRule], t: Thresholds, beside: Beside) -> Finding:
    row = group.row
    own = () if not is_own(row) else (against(stall),)
    return tell(
        "KRN008",
        group,
        f"{clause(group)} waits for {REASONS[stall.reason].words} in {part(stall.share)} of its warps' cycles, "
        f"and reaches only {compute(row):.0f}% of the peak of arithmetic and {memory(row):.0f}% of that of memory.",
        t,
        beside=beside,
        gain=bounded(stall.share, group),
        heard=heard,
        facts={"stall": f"{stall.reason.replace('_', ' ')}, {part(stall.share)}"},
        fixes=(*own, *against_latency(row)),
    )
