"""Far fewer warps run than a kernel's resources allow

What it means
    More warps fit on a multiprocessor than are there on average, and the kernel reaches neither the peak of memory
    nor of arithmetic: warps are missing that could hide its waiting.

Why it happens
    Blocks that live so shortly that launching them cannot keep up (one warp a block, little work each), blocks or
    warps with very different amounts of work, or a grid whose last part leaves multiprocessors empty.

How to confirm
    `ncu --section Occupancy`: Achieved Occupancy more than 10 points below Theoretical Occupancy.

How to fix
    Give each block more work (a loop over its elements), use blocks of several warps, even out the work of
    blocks. In torch's own kernels the shape decides: fewer, longer rows; larger batches; fused operations.

Limits
    10 points is NVIDIA's threshold. Passed over where a side is near its peak, where grid size is the reason
    (KRN002), and where fewer warps fit than are lost besides (KRN009).

References
    - https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#occupancy
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.ncu.advice import against_latency, is_own
from necropsy.ncu.figures import ACHIEVED, feeds_tensor_cores, latency_bound, theoretical
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, bounded, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule

_WARP = 32


class Thresholds(Weight, frozen=True):
    """NVIDIA's threshold, and what makes it matter.

    `points` between what fits and what runs; `lost`: part of the warps that fit which must be missing for it to be
    the kernel's story; `low`: percent of both peaks below which it matters.
    """

    points: float = 10.0
    lost: float = 0.3
    low: float = 60.0


@rule("KRN010", "occupancy-not-reached", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and not any(_told(r) for r in kernels.own):
        yield lacking("occupancy", "ncu --section Occupancy --section LaunchStats --section SpeedOfLight")
    for group in worth_telling(kernels, t):
        row = group.row
        fit, run = theoretical(row), row.value(ACHIEVED)
        if fit is None or run is None or fit - run <= t.points or not latency_bound(row, t.low):
            continue
        lost = 1 - run / fit
        if lost >= max(t.lost, 1 - fit / 100) and not feeds_tensor_cores(row):
            yield _finding(group, fit, run, rules, t, (inductor, traces))


def _told(row: NcuKernel) -> bool:
    """Whether it is known how many warps fit and run, and whether that matters."""
    return None not in (theoretical(row), row.value(ACHIEVED), latency_bound(row))


def _finding(group: Group, fit: float, run: float, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    row = group.row
    single = row.threads is not None and row.threads <= _WARP
    why = " in blocks of a single warp" if single else ""
    own = () if not is_own(row) else (
        Fix("Let each block do more: several warps, and a loop over its part of the data", "code"),
    )  # fmt: skip
    return tell(
        "KRN010",
        group,
        f"{clause(group)} keeps {run:.0f}% of a multiprocessor's warps busy{why} where {fit:.0f}% would fit: its "
        "blocks end sooner than new ones start, or have uneven work.",
        t,
        beside=beside,
        gain=bounded(1 - run / fit, group),
        heard=said(rules, group, "measured achieved occupancy"),
        confidence=Confidence.LIKELY,
        fixes=(*own, *against_latency(row)),
    )
