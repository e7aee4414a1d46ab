"""The size of a kernel's blocks wastes threads, or leaves no work at a barrier

What it means
    Threads run in warps of 32. A block whose size is no multiple of 32 has a last warp with threads that never do
    anything, and they cost as much as the others. And where a multiprocessor holds a single block, it has nothing to
    run while the warps of that block wait for each other at a barrier (`__syncthreads()`).

Why it happens
    The block size was taken from the data (100 threads for 100 numbers). Or blocks are so large (1,024 threads, much
    shared memory, many registers) that a second one does not fit, or so few that there is none.

How to confirm
    `ncu --section LaunchStats`: Block Size is not a multiple of 32. `--section Occupancy --section WarpStateStats`: a
    block limit of 1, and Stall Barrier among the largest of the warp states.

How to fix
    Launch a multiple of 32, 128 to 256 threads to start with, and let threads beyond the end return. Smaller blocks, of
    which two or more fit, fill each other's waits at barriers.

Limits
    Where no thread of a warp has work it costs little beside latency: the cost is the part of the threads that is
    missing, and at most what the busier side of the GPU leaves. Waits at barriers count only where both sides of the
    GPU are below `low` and the kernel does not feed tensor cores, whose kernels run one large block by design. Of waits
    that more blocks do not hide, KRN008 tells.

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
from necropsy.ncu.figures import feeds_tensor_cores, latency_bound
from necropsy.ncu.groups import Group
from necropsy.ncu.stalls import dominant
from necropsy.ncu.story import Beside, Weight, bounded, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule
from necropsy.trace.claim import part

WARP = 32
_ROUND = Fix("Launch a multiple of 32 threads (128 to 256), and let those beyond the end return", "code")


_SMALLER = Fix("Use smaller blocks (128 to 256 threads), so that others run while one waits at a barrier", "code")
_FIT = ("registers", "shared_mem", "warps", "blocks")


class Thresholds(Weight, frozen=True):
    """When blocks count.

    `idle`: part of the warps' threads (0 to 1) that are missing; `waits`: part of their cycles (0 to 1) that warps wait
    at barriers, `low`: percent of both peaks below which that matters (NVIDIA's 30% and 60%); `blocks` that a
    multiprocessor should hold (NVIDIA's 2).
    """

    idle: float = 0.05
    waits: float = 0.3
    low: float = 60.0
    blocks: int = 2


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
                continue
        waits, held = _at_barriers(group, rules), _held(group)
        if waits is None or held is None or waits < t.waits or held >= t.blocks:
            continue
        if latency_bound(group.row, t.low) and not feeds_tensor_cores(group.row):
            yield _waiting(group, waits, rules, t, (inductor, traces))


def _at_barriers(group: Group, rules: NcuRules) -> float | None:
    """Part of the cycles that warps wait at barriers, if they wait for nothing longer."""
    stall = dominant(group.row, rules.of(group.row.seq))
    return stall.share if stall is not None and stall.reason == "barrier" else None


def _held(group: Group) -> int | None:
    """Blocks that the busiest multiprocessor holds at once: those that fit, or that there are."""
    row = group.row
    fit = [int(v) for name in _FIT if (v := row.value(f"launch__occupancy_limit_{name}")) is not None]
    if row.blocks is not None and row.sms:
        fit.append(-(-row.blocks // row.sms))
    return min(fit, default=None)


def _waiting(group: Group, waits: float, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    size = f" of {group.row.threads:,} threads" if group.row.threads else ""
    return tell(
        "KRN006",
        group,
        f"{clause(group)} runs a single block{size} on a multiprocessor, whose warps wait for each other at barriers "
        f"in {part(waits)} of their cycles: no other block works meanwhile.",
        t,
        beside=beside,
        gain=bounded(waits, group),
        heard=said(rules, group, "cta barrier", "__syncthreads", "blocks per multiprocessor"),
        facts={"stall": f"barrier, {part(waits)}"},
        fixes=(BATCH,) if not is_own(group.row) else (_SMALLER,),
    )


def _finding(group: Group, threads: int, idle: float, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    warps = -(-threads // WARP)
    return tell(
        "KRN006",
        group,
        f"{clause(group)} has blocks of {threads} thread{'s' * (threads > 1)}, no multiple of {WARP}: of {warps} "
        f"warp{'s' * (warps > 1)} "
        f"{part(idle)} of the threads never work.",
        t,
        beside=beside,
        gain=bounded(idle, group),
        heard=said(rules, group, "multiple of 32", "block size"),
        fixes=(BATCH,) if not is_own(group.row) else (_ROUND,),
    )
