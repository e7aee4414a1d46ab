"""A kernel runs near a peak of the GPU

What it means
    Arithmetic or device memory is used to 80% or more, or both sides alike and one above 60%: the kernel
    does what the hardware can. Time can be saved by doing less, hardly by doing it better.

Why it happens
    It is what a good kernel looks like: a large product on tensor cores, a fused element-wise kernel.

How to confirm
    `ncu --section SpeedOfLight`: Compute (SM) or Memory Throughput at 80% or more.

How to fix
    Nothing, unless it takes much time: then fewer bytes (16 or 8 bits, fusion), fewer operations, or none
    (caching). Where FP32 products are near the peak of ordinary cores, KRN019 says so instead.

Limits
    A note. Low occupancy, idle issue slots and stalls of such a kernel are no faults and are not told. Caches
    at their peak are: see KRN003. 80% is the threshold of NVIDIA's own rule.

References
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#sections-and-rules
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Cost, Finding, Severity
from necropsy.ncu.advice import against_compute, against_memory
from necropsy.ncu.figures import DRAM, compute, limiter, memory, tensor
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, clause, tell, worth_telling
from necropsy.rule import Judged, lacking, rule
from necropsy.trace.kernelnames import ORDINARY, TENSOR, unit


class Thresholds(Weight, frozen=True):
    """`near`: percent of a peak from which a kernel is near it; `low` and `difference`: both sides alike above it.

    `much`: part of the profiled time from which it is worth a word.
    """

    near: float = 80.0
    low: float = 60.0
    difference: float = 10.0
    much: float = 0.03


@rule("KRN004", "near-peak", Severity.NOTE, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One note a kernel, grid and place."""
    if kernels.own and all(compute(r) is None and memory(r) is None for r in kernels.own):
        yield lacking("throughput of compute and memory", "ncu --section SpeedOfLight")
    for group in worth_telling(kernels, t):
        sm, mem = compute(group.row) or 0.0, memory(group.row) or 0.0
        even = max(sm, mem) >= t.low and abs(sm - mem) < t.difference
        near = sm >= t.near or (mem >= t.near and limiter(group.row) == DRAM)
        if (near or even) and (group.share is None or group.share >= t.much):
            yield _finding(group, sm, mem, t, (inductor, traces))


def _finding(group: Group, sm: float, mem: float, t: Thresholds, beside: Beside) -> Finding:
    row = group.row
    busy = tensor(row)
    by_tensor = sm >= mem and (unit(row.kernel) == TENSOR if busy is None else busy >= t.low)
    side = "tensor cores" if by_tensor else "the multiprocessors" if sm >= mem else limiter(row) or "memory"
    does = f"runs at {max(sm, mem):.0f}% of the peak of {side}"
    if sm < t.near and mem < t.near:
        does = f"uses arithmetic ({sm:.0f}% of peak) and memory ({mem:.0f}%) alike"
    ordinary = not by_tensor and sm >= mem and unit(row.kernel) == ORDINARY
    end = "on ordinary cores, which may be the slower unit" if ordinary else "so that the kernel has no easy gain"
    return tell(
        "KRN004",
        group,
        f"{clause(group)} {does}, {end}.",
        t,
        beside=beside,
        note=True,
        cost=Cost(),
        facts={} if busy is None else {"tensor pipe active": f"{busy:.0f}%"},
        fixes=against_compute(row) if sm >= mem else against_memory(row),
    )
