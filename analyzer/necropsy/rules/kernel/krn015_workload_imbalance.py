"""Some units of the GPU work much longer than others of their kind

What it means
    The kernel ends when its last unit is done. Here the busiest multiprocessor, warp scheduler, slice of the L2
    cache or channel of device memory had work for much longer than the average one.

Why it happens
    Multiprocessors: blocks with different amounts of work (ragged sequences, graphs, sparse rows), with the long ones
    started last. Schedulers: some warps of each block do most of it. Slices and channels: addresses that lie a large
    power of two apart fall on few of them.

How to confirm
    `ncu --section WorkloadDistribution`: maximum of active cycles above their average.

How to fix
    Multiprocessors: start the long blocks first (sort by length), split them, or let blocks take work from a counter.
    Schedulers: give all warps of a block alike. Slices and channels: pad rows, so that their length in bytes
    is no large power of two.

Limits
    Told where the grid is not the reason (KRN002, KRN005): a last wave that is not full explains as much as is missing
    of it. A multiprocessor counts from 5% on, NVIDIA's threshold.
    Slices and channels count only where that memory is what limits the kernel and the busiest of them is near its peak:
    of small kernels a few slices are always busier, which costs nothing. That addresses are the reason is
    likely, not measured.

References
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#sections-and-rules
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Final

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.ncu_rules import NcuRule, NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.ncu.advice import BATCH, is_own
from necropsy.ncu.balance import CHANNEL, L2_SLICE, SCHEDULER, SM, lost
from necropsy.ncu.figures import DRAM, L2, compute, limiter, memory
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, bounded, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule
from necropsy.trace.claim import part

_SORT: Final = Fix(
    "Start the longest work first (sort by length), split it, or let blocks fetch work from a counter", "code"
)
_SAME: Final = Fix("Give it work of equal length: bucket or pad sequences", "code")
_WARPS: Final = Fix("Divide the work of a block evenly over its warps, and launch a multiple of 4 warps", "code")
_PAD: Final = Fix(
    "Pad the last dimension of its tensors (by 32 numbers, say), so that rows lie no large power of two apart", "code"
)
_SLICES: Final = {L2: (L2_SLICE, "slice of the L2 cache"), DRAM: (CHANNEL, "channel of device memory")}
_WORDS: Final = {
    SM: ("multiprocessor", "its blocks have uneven work", (_SORT,), (_SAME, BATCH)),
    SCHEDULER: ("warp scheduler", "some warps of its blocks do most of the work", (_WARPS,), (_SAME,)),
    L2_SLICE: (_SLICES[L2][1], "most of its addresses seem to fall on few of them", (_PAD,), (_PAD,)),
    CHANNEL: (_SLICES[DRAM][1], "most of its addresses seem to fall on few of them", (_PAD,), (_PAD,)),
}
_SAID: Final = {
    SM: ("sms workload imbalance", "one or more sms have"), SCHEDULER: ("one or more smsps have",),
    L2_SLICE: ("one or more l2",), CHANNEL: ("one or more dram",),
}  # fmt: skip


class Thresholds(Weight, frozen=True):
    """When it counts.

    `lost`: part of the busiest multiprocessor's time that the average one idles (NVIDIA's 5%); `inner`: the same of
    schedulers (beyond that of their multiprocessors), slices and channels; `near`: percent of its peak at which the
    busiest slice or channel must be.
    """

    lost: float = 0.05
    inner: float = 0.1
    near: float = 60.0


@rule("KRN015", "workload-imbalance", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(lost(r, SM, rules.of(r.seq)) is None for r in kernels.own):
        yield lacking("active cycles of each multiprocessor", "ncu --section WorkloadDistribution")
    for group in worth_telling(kernels, t):
        found = _uneven(group, rules.of(group.row.seq), t)
        if found is not None:
            yield _finding(group, *found, rules, t, (inductor, traces))


def _uneven(group: Group, heard: list[NcuRule], t: Thresholds) -> tuple[str, float] | None:
    """The unit whose kind is uneven, and what its average one idles; the outer before the inner."""
    row = group.row
    sm, waves = lost(row, SM, heard), row.value("launch__waves_per_multiprocessor")
    if waves is None or waves >= 1:
        if sm is not None and sm >= t.lost and not (waves is not None and sm <= _last_wave(waves)):
            return SM, sm
        inner = lost(row, SCHEDULER, heard)
        if inner is not None and sm is not None and inner - sm >= t.inner:
            return SCHEDULER, inner
    if limiter(row) in _SLICES and (memory(row) or 0.0) > (compute(row) or 0.0):
        unit, _ = _SLICES[limiter(row)]
        slices = lost(row, unit, heard)
        if slices is not None and t.inner <= slices < 1 and (memory(row) or 0.0) / (1 - slices) >= t.near:
            return unit, slices
    return None


def _last_wave(waves: float) -> float:
    """What the average multiprocessor idles (0 to 1) where some have a block more than others: equal blocks do that."""
    return 1 - waves / ceil(waves) if waves > 0 else 0.0


def _finding(group: Group, unit: str, idle: float, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    name, why, own, others = _WORDS[unit]
    return tell(
        "KRN015",
        group,
        f"{clause(group)} keeps its busiest {name} at work for longer than the average one, which idles for "
        f"{part(idle)} of that time: {why}.",
        t,
        beside=beside,
        gain=idle if unit == SM else bounded(idle, group),
        heard=said(rules, group, *_SAID[unit]),
        confidence=Confidence.LIKELY,
        facts={f"average {name} idle": part(idle)},
        fixes=own if is_own(group.row) else others,
    )
