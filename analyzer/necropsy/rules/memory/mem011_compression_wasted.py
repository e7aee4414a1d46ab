"""Memory was marked for compression, and does not compress

What it means
    L2 tries to compress what is written to memory that was allocated as compressible, and fails on nearly all of it:
    the attempt is for nothing.

Why it happens
    Compressible memory (`CU_MEM_ALLOCATION_COMP_GENERIC`) was asked for data that is not homogeneous: weights,
    activations, random numbers.

How to confirm
    `ncu --section MemoryWorkloadAnalysis_Chart`: L2 Compression Success Rate below 20%.

How to fix
    Ask for it only for memory of zeros or of few values.

Limits
    A note, of kernels of one's own only: torch does not allocate compressible memory, and NVIDIA's rule gives this
    advice to nearly every kernel of it. 20% is NVIDIA's threshold.

References
    - https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#compressible-memory
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.finding import Cost, Finding, Fix, Severity
from necropsy.ncu.advice import OWN, kind_of
from necropsy.ncu.story import Weight, clause, said, tell, worth_telling
from necropsy.rule import rule

_SENT: Final = re.compile(r"Out of the ([\d.,]+) bytes sent to the L2 Compression unit only ([\d.,]+)% were")
_RATE: Final = "lts__average_gcomp_input_sector_success_rate.pct"
_FIX: Final = Fix("Ask for compressible memory only where it holds zeros or few values", "code")


class Thresholds(Weight, frozen=True):
    """`success`, percent below which (NVIDIA's 20), and `used`: percent from which compression is in use at all."""

    success: float = 20.0
    used: float = 0.01


@rule("MEM011", "compression-wasted", Severity.NOTE, settings=Thresholds, general=True)
def check(kernels: NcuKernels, rules: NcuRules, t: Thresholds) -> Iterator[Finding]:
    """One note a kernel of one's own that compresses a little: without any success the memory is not compressible."""
    for group in worth_telling(kernels, t):
        rate = group.row.value(_RATE)
        heard = said(rules, group, "l2 compression unit")
        told = next((m for r in heard if (m := _SENT.search(r.message)) is not None), None)
        rate = rate if rate is not None else None if told is None else float(told[2].replace(",", "."))
        if rate is None or not t.used <= rate < t.success or kind_of(group.row) != OWN:
            continue
        yield tell(
            "MEM011",
            group,
            f"{clause(group)} writes to memory that is marked compressible, and {rate:.1f}% of it compresses: the "
            "attempt is for nothing.",
            t,
            beside=(None, None),
            note=True,
            cost=Cost(),
            facts={"compressed": f"{rate:.1f}%"},
            fixes=(_FIX,),
        )
