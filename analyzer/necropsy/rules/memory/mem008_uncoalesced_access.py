"""A kernel uses only part of each sector of memory that it moves

What it means
    Memory moves sectors of 32 bytes (four make a cache line of 128). Threads of a warp that read or write
    numbers far apart use a few bytes of each, and the rest of the traffic is for nothing: for one 4-byte
    number a sector, seven eighths.

Why it happens
    The tensor is walked across its layout: a transposed or sliced operand, `.t().contiguous()`, a reduction
    over the first dimension, rows gathered in pieces. In a kernel of one's own: neighbouring threads
    index with a stride.

How to confirm
    `ncu --section MemoryWorkloadAnalysis_Tables --section SourceCounters`: bytes utilized per sector below 32,
    and L2 Theoretical Sectors Global Excessive above 0.

How to fix
    Make neighbouring threads touch neighbouring numbers. From Python: produce the tensor in the layout in
    which it is read, drop copies that products do not need, let torch.compile fuse the transposition into
    its consumer. In a kernel: transpose a tile through shared memory.

Limits
    What a launch wastes is counted in sectors, and weighs as much as memory is the limit. Kernels whose bytes move by
    TMA are passed over: what is counted is a side path of theirs (KRN022).

References
    - https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#coalesced-access-to-global-memory
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#memory-tables
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.ncu_rules import NcuRule, NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.ncu.access import SECTOR, Waste, bulk_share, global_waste
from necropsy.ncu.advice import COPY, OWN, against_memory, kind_of
from necropsy.ncu.figures import compute, memory
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule
from necropsy.trace.claim import part

SAID: Final = ("uncoalesced global", "bytes transmitted per sector")
_OWN: Final = Fix(
    "Let neighbouring threads touch neighbouring numbers; where the layout forbids it, transpose a tile through shared "
    "memory", "code",
)  # fmt: skip
_LAYOUT: Final = Fix(
    "Make the operand contiguous in the order in which the kernel walks, once, where it is made", "code"
)


class Thresholds(Weight, frozen=True):
    """What counts.

    `excess`: part of the sectors moved for nothing from which it counts; `bulk`: part of the bytes moved by TMA from
    which the counts are of a side path.
    """

    excess: float = 0.1
    bulk: float = 0.5


@rule("MEM008", "uncoalesced-access", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(global_waste(r, rules.of(r.seq)) is None for r in kernels.own):
        yield lacking(
            "bytes used of each sector", "ncu --section MemoryWorkloadAnalysis_Tables --section SourceCounters"
        )
    for group in worth_telling(kernels, t):
        heard = said(rules, group, *SAID)
        waste = global_waste(group.row, heard)
        if waste is not None and waste.excess >= t.excess and bulk_share(group.row) < t.bulk:
            yield _finding(group, waste, heard, t, (inductor, traces))


def _finding(group: Group, waste: Waste, heard: list[NcuRule], t: Thresholds, beside: Beside) -> Finding:
    row = group.row
    of = f"uses {waste.used:.1f} of the {SECTOR} bytes" if waste.used is not None else "uses part"
    verb = {"loads": " it loads", "stores": " it stores"}.get(waste.what, " it moves")
    return tell(
        "MEM008",
        group,
        f"{clause(group)} {of} of each sector that{verb}: {part(waste.excess)} of its traffic between caches is for "
        "nothing, since neighbouring threads touch numbers that lie apart.",
        t,
        beside=beside,
        gain=waste.excess * _weight(row),
        heard=heard,
        facts={"sectors moved for nothing": part(waste.excess)}
        | ({} if waste.used is None else {"bytes used of a sector": f"{waste.used:.1f} of {SECTOR}"}),
        fixes=_fixes(row),
    )


def _weight(row: NcuKernel) -> float:
    """How much memory is what limits (0 to 1): its throughput against the busier side's."""
    sm, mem = compute(row), memory(row)
    if mem is None:
        return 1.0
    return min(1.0, mem / 100) if sm is None or mem >= sm else mem / 100 * mem / max(sm, 1.0)


def _fixes(row: NcuKernel) -> tuple[Fix, ...]:
    kind = kind_of(row)
    if kind == OWN:
        return (_OWN,)
    return against_memory(row) if kind == COPY else (_LAYOUT, *against_memory(row))
