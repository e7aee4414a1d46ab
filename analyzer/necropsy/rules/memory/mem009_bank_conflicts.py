"""Threads of a kernel queue for the same banks of shared memory

What it means
    Shared memory has 32 banks. Threads of a warp that read different words of one bank are served one after the
    other: the access takes more wavefronts than its bytes need.

Why it happens
    Tiles whose rows are a multiple of 32 words long, read down a column; structures with a stride of 2, 4, 8, ...
    words.

How to confirm
    `ncu --section MemoryWorkloadAnalysis_Tables --section SourceCounters`: bank conflicts beside wavefronts of
    shared loads and stores, L1 Wavefronts Shared Excessive.

How to fix
    Pad rows by one element (`tile[32][33]`) or swizzle the index. Triton and CUTLASS swizzle by themselves; in their
    kernels try other tile sizes.

Limits
    10% of all wavefronts is NVIDIA's threshold. Of libraries' kernels it stays a note, and of kernels near the peak
    of arithmetic nothing is said.

References
    - https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#shared-memory-and-memory-banks
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.ncu_rules import NcuRule, NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.ncu.access import shared_waste
from necropsy.ncu.advice import COMPILED, TUNE, kind_of
from necropsy.ncu.advice import is_library as of_library
from necropsy.ncu.figures import compute, memory
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, bounded, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule
from necropsy.trace.claim import part

_SAID: Final = ("uncoalesced shared", "bank conflict")
_PAD: Final = Fix("Pad the rows of the tile by one element (`tile[32][33]`), or swizzle its index", "code")


class Thresholds(Weight, frozen=True):
    """What counts.

    `excess`: part of the wavefronts that conflicts add (NVIDIA's 10%); `busy`: percent of the peak of arithmetic
    from which it does not matter.
    """

    excess: float = 0.1
    busy: float = 80.0


@rule("MEM009", "bank-conflicts", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(shared_waste(r, rules.of(r.seq)) is None for r in kernels.own):
        yield lacking(
            "wavefronts of shared memory", "ncu --section MemoryWorkloadAnalysis_Tables --section SourceCounters"
        )
    for group in worth_telling(kernels, t):
        heard = said(rules, group, *_SAID)
        excess = shared_waste(group.row, heard)
        if excess is not None and excess >= t.excess and (compute(group.row) or 0.0) < t.busy:
            yield _finding(group, excess, heard, t, (inductor, traces))


def _finding(group: Group, excess: float, heard: list[NcuRule], t: Thresholds, beside: Beside) -> Finding:
    row = group.row
    weight = (memory(row) or 100.0) / 100
    return tell(
        "MEM009",
        group,
        f"{clause(group)} needs {part(excess)} of its wavefronts of shared memory only for bank conflicts: threads of "
        "a warp queue for the same bank.",
        t,
        beside=beside,
        gain=bounded(excess * weight, group),
        heard=heard,
        note=of_library(row),
        facts={"wavefronts for conflicts": part(excess)},
        fixes=(TUNE,) if kind_of(row) == COMPILED else (_PAD,) if not of_library(row) else (),
    )
