"""Advice on access patterns is about a side path of a kernel that uses TMA

What it means
    The kernel copies whole tiles with the Tensor Memory Accelerator (Hopper and newer), which does not go through
    the loads and stores that rules of coalescing and sectors count. Their percentages concern the few scalar accesses
    besides, and what they promise cannot be had.

Why it happens
    cuBLAS (`nvjet`), CUTLASS 3, FlashAttention 3 and Triton with descriptors load so.

How to confirm
    `ncu --section MemoryWorkloadAnalysis_Tables`: bytes of TMA loads far above those of global loads.

How to fix
    Nothing: pass that advice over.

Limits
    Told only where NVIDIA's rule gave such advice. `bulk` is the part of the bytes that TMA moves.

References
    - https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#asynchronous-data-copies-using-the-tensor-memory-accelerator-tma
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.finding import Cost, Finding, Severity
from necropsy.ncu.access import bulk_share
from necropsy.ncu.claim import about, kernel_name
from necropsy.ncu.story import Weight, said, worth_telling
from necropsy.rule import rule
from necropsy.trace.claim import part

_ADVICE: Final = ("uncoalesced global", "bytes transmitted per sector", "memory access pattern for global")


class Thresholds(Weight, frozen=True):
    """From which `bulk` part of the bytes (0 to 1) the scalar path is a side path."""

    bulk: float = 0.5


@rule("KRN022", "bulk-copies", Severity.NOTE, settings=Thresholds)
def check(kernels: NcuKernels, rules: NcuRules, t: Thresholds) -> Iterator[Finding]:
    """One note a kernel that got such advice."""
    for group in worth_telling(kernels, t):
        bulk, heard = bulk_share(group.row), said(rules, group, *_ADVICE, kinds=("OPT",))
        if bulk >= t.bulk and heard:
            yield about(
                group,
                f"NVIDIA's advice on access patterns of {kernel_name(group)} concerns {part(1 - bulk)} of its bytes: "
                "the others move by TMA, so that the promised speed-up cannot be had.",
                Severity.NOTE,
                cost=Cost(),
                facts={"bytes by TMA": part(bulk)},
                event=f"tma:{group.row.seq}@{group.row.anchor.input}",
            )
