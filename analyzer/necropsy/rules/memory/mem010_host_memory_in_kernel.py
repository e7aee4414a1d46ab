"""A kernel reads memory of the host or of another GPU while it runs

What it means
    What the kernel misses in the L2 cache does not come from its GPU's own memory but over PCIe or NVLink, at a small
    part of the speed.

Why it happens
    Pinned or managed (unified) memory used in a kernel, a tensor that another GPU holds, embeddings kept on the host.

How to confirm
    `ncu --section MemoryWorkloadAnalysis_Tables`: L2 misses by aperture (system memory, peer memory).

How to fix
    Copy to the device first (`x = x.to("cuda", non_blocking=True)` from pinned memory), prefetch managed memory.

Limits
    Reading a little from the host (parameters, flags) is normal: told from `share_of_misses` of the misses and from
    `bytes` on. NVIDIA's rule asks besides for traffic above 50% of L2's peak, which what waits for PCIe rarely reaches.

References
    - https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#zero-copy
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.ncu.access import SECTOR
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, bounded, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule
from necropsy.trace.claim import part

_TEX: Final = "lts__t_sectors_srcunit_tex"
_WHERE: Final = {"sysmem": "the host's memory", "peer": "another GPU's memory"}
_FIX: Final = {
    "sysmem": Fix("Copy to the device before the kernel", "code", command='x = x.to("cuda", non_blocking=True)'),
    "peer": Fix("Copy to this GPU before the kernel, or compute where the tensor is", "code"),
}


class Thresholds(Weight, frozen=True):
    """When it counts: `share_of_misses` (0 to 1) that another memory serves, and `bytes` of them."""

    share_of_misses: float = 0.4
    bytes: float = 1 << 20


@rule("MEM010", "host-memory-in-kernel", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(_elsewhere(r) is None for r in kernels.own):
        yield lacking("L2 misses by aperture", "ncu --section MemoryWorkloadAnalysis_Tables")
    for group in worth_telling(kernels, t):
        found = _elsewhere(group.row)
        if found is not None and found[1] >= t.share_of_misses and found[2] >= t.bytes:
            yield _finding(group, *found, rules, t, (inductor, traces))


def _elsewhere(row: NcuKernel) -> tuple[str, float, float] | None:
    """The other memory that serves most misses, its part of them (0 to 1), and bytes."""
    by = {
        name: v for name in ("device", "sysmem", "peer")
        if (v := row.value(f"{_TEX}_aperture_{name}_lookup_miss.sum")) is not None
    }  # fmt: skip
    whole = sum(by.values())
    if not {"device", "sysmem"} <= set(by) or not whole:
        return None
    other = max((n for n in by if n != "device"), key=lambda n: by[n])
    return other, by[other] / whole, by[other] * SECTOR


def _finding(
    group: Group, other: str, share: float, moved: float, rules: NcuRules, t: Thresholds, beside: Beside
) -> Finding:
    return tell(
        "MEM010",
        group,
        f"{clause(group)} fetches {part(share)} of what it misses in the L2 cache ({moved / 2**20:,.0f} MiB) from "
        f"{_WHERE[other]} while it runs: it waits for the link.",
        t,
        beside=beside,
        gain=bounded(share, group),
        heard=said(rules, group, "system memory", "peer memory", "sysmem"),
        facts={"misses served elsewhere": part(share)},
        fixes=(_FIX[other],),
    )
