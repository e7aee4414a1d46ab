"""The size of a kernel's blocks wastes threads of its warps

What it means
    Threads run in warps of 32. A block whose size is no multiple of 32 has a last warp with threads that never do
    anything, and they cost as much as the others.

Why it happens
    The block size was taken from the data (100 threads for 100 numbers).

How to confirm
    `ncu --section LaunchStats`: Block Size is not a multiple of 32.

How to fix
    Launch a multiple of 32, 128 to 256 threads to start with, and let threads beyond the end return.

Limits
    Where no thread of a warp has work it costs little beside latency: the cost is the part of the threads that is
    missing, and at most what the busier side of the GPU leaves. NVIDIA's other advice about blocks, at least two on a
    multiprocessor where `__syncthreads()` is used, is a fact of a small grid.

References
    - https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#thread-and-block-heuristics
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.ncu.advice import BATCH, is_own
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, bounded, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule
from necropsy.trace.claim import part

WARP = 32
_ROUND = Fix("Launch a multiple of 32 threads (128 to 256), and let those beyond the end return", "code")


class Thresholds(Weight, frozen=True):
    """When missing threads count: `idle`, their part of the warps (0 to 1)."""

    idle: float = 0.05


@rule("KRN006", "block-size", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(r.threads is None for r in kernels.own):
        yield lacking("sizes of blocks", "ncu --section LaunchStats")
    for group in worth_telling(kernels, t):
        threads = group.row.threads
        if threads is not None and threads % WARP:
            idle = 1 - threads / (-(-threads // WARP) * WARP)
            if idle >= t.idle:
                yield _finding(group, threads, idle, rules, t, (inductor, traces))


def _finding(group: Group, threads: int, idle: float, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    warps = -(-threads // WARP)
    return tell(
        "KRN006",
        group,
        f"{clause(group)} has blocks of {threads} threads, no multiple of {WARP}: of {warps} warp{'s' * (warps > 1)} "
        f"{part(idle)} of the threads never work.",
        t,
        beside=beside,
        gain=bounded(idle, group),
        heard=said(rules, group, "multiple of 32", "block size"),
        fixes=(BATCH,) if not is_own(group.row) else (_ROUND,),
    )
