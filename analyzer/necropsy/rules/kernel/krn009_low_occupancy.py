"""A kernel's resources let too few warps run at once

What it means
    A multiprocessor hides waiting by switching between warps. The registers, shared memory or block size
    of this launch allow only part of the warps it could hold, and the kernel reaches neither the peak of
    memory nor of arithmetic.

Why it happens
    Many registers a thread, much shared memory a block, blocks so small that the number of blocks is the
    limit, or so large that one fits and a second does not.

How to confirm
    `ncu --section Occupancy`: Theoretical Occupancy, and the smallest of the Block Limits.

How to fix
    Relieve what the finding names: `__launch_bounds__` or smaller tiles for registers, smaller tiles or fewer
    stages for shared memory, blocks of 128 to 256 threads for the number of blocks. For Triton: `num_warps`,
    `num_stages`, block sizes; torch.compile tries them under `mode="max-autotune"`.

Limits
    Low occupancy is no fault of kernels near a peak, nor of those that feed tensor cores with few warps by design:
    both are passed over. Below 80% is NVIDIA's threshold. Where far fewer warps run than fit, KRN010 says so.

References
    - https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#occupancy
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
from necropsy.ncu.figures import ACHIEVED, feeds_tensor_cores, latency_bound, occupancy_limiters, theoretical
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, bounded, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule

_WORDS: Final = {
    "registers": (
        "its registers",
        "Use fewer registers: smaller tiles, `__launch_bounds__` in CUDA, more `num_warps` in Triton",
    ),
    "shared_mem": ("its shared memory", "Use less shared memory a block: smaller tiles, fewer pipeline stages"),
    "blocks": ("the number of blocks that fit", "Use larger blocks: 128 to 256 threads"),
    "warps": ("the size of its blocks", "Use smaller blocks: 128 to 256 threads"),
    "barriers": ("its barriers", "Use fewer named barriers a block"),
}


class Thresholds(Weight, frozen=True):
    """NVIDIA's threshold, and what makes it matter.

    `occupancy`: percent of the warps from which enough fit; `low`: percent of both peaks below which it matters.
    """

    occupancy: float = 80.0
    low: float = 60.0


@rule("KRN009", "low-occupancy", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(theoretical(r) is None or latency_bound(r) is None for r in kernels.own):
        yield lacking("occupancy", "ncu --section Occupancy --section LaunchStats --section SpeedOfLight")
    for group in worth_telling(kernels, t):
        row = group.row
        fit = theoretical(row)
        if fit is None or fit >= t.occupancy or not latency_bound(row, t.low) or feeds_tensor_cores(row):
            continue
        yield _finding(group, fit, rules, t, (inductor, traces))


def _finding(group: Group, fit: float, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    row = group.row
    limits = [name for name in occupancy_limiters(row) if not _by_the_way(row, name)]
    who = " and ".join(_WORDS[name][0] for name in limits) or "its resources"
    own = () if not is_own(row) else tuple(Fix(_WORDS[name][1], "code") for name in limits)
    achieved = row.value(ACHIEVED)
    run = f", and {achieved:.0f}% run on average" if achieved is not None else ""
    return tell(
        "KRN009",
        group,
        f"{clause(group)} can hold only {fit:.0f}% of a multiprocessor's warps, limited by {who}{run}: too few to hide "
        "what it waits for.",
        t,
        beside=beside,
        gain=bounded(1 - fit / 100, group),
        heard=said(rules, group, "theoretical occupancy (", "theoreticaloccupancy"),
        facts={"limited by": ", ".join(n.replace("_mem", " memory") for n in limits)} if limits else {},
        fixes=(*own, *against_latency(row)),
    )


def _by_the_way(row: NcuKernel, name: str) -> bool:
    """Whether a limit is that of the number of blocks by other names: no barriers, only the driver's shared memory."""
    if name == "barriers":
        return not row.value("launch__barrier_count")
    if name != "shared_mem":
        return False
    static, dynamic = (row.value(f"launch__shared_mem_per_block_{kind}") for kind in ("static", "dynamic"))
    return static == 0 and dynamic == 0
