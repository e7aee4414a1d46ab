"""A kernel is bound by memory, or by arithmetic

What it means
    One side of the GPU is much busier than the other. Bound by memory, the finding names the part:
    device memory (DRAM), the L2 cache, or L1 and shared memory. Bound by arithmetic, the
    multiprocessors are.

Why it happens
    Element-wise operations do one or two operations a number, and wait for its bytes. Caches that
    are at their peak while device memory is not move more bytes than the data has: it is read
    several times, or in pieces of sectors (strided access). Arithmetic is the limit of products in
    FP32, of random numbers, of special functions.

How to confirm
    `ncu --section SpeedOfLight`: the larger of Compute (SM) Throughput and Memory Throughput, and in its
    breakdown which unit it is. For access patterns: `--section MemoryWorkloadAnalysis_Tables --section
    SourceCounters`.

How to fix
    Memory: fuse element-wise operations (`torch.compile`), use 16 bits, avoid copies, keep convolutions in
    channels_last. Arithmetic: 16 bits or TF32, so that tensor cores do it.

Limits
    A verdict, not a fault: it stays a note, except where the kernel's name says that it walks over a tensor
    that is not contiguous while a cache is the limit. `near` and `difference` are NVIDIA's 80 and 10. The
    article that this project answers names a metric that does not exist (`achieved__memory_throughput`) and
    asks for 0.7 of the peak bandwidth, or 85% of memory with a GPU used below 30%: `bandwidth`,
    `memory_high` and `compute_low` are these, and tell which kernels are called bandwidth-bound in the facts.

References
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#roofline-charts
    - https://docs.nvidia.com/deeplearning/performance/dl-performance-gpu-background/index.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Fact, Finding, Fix, Severity
from necropsy.ncu.advice import against_compute, against_memory, is_strided
from necropsy.ncu.figures import DRAM, compute, limiter, memory
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule

_PATTERN = Fix(
    "Collect how many bytes of each sector are used", "command",
    command="ncu --section MemoryWorkloadAnalysis_Tables --section SourceCounters",
)  # fmt: skip
_SECTORS = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"


class Thresholds(Weight, frozen=True):
    """NVIDIA's thresholds, and the article's.

    `low`, `near`: percent of peak below which a kernel is bound by latency, and from which it is near its peak;
    `difference`: points between the two sides. `bandwidth` (part of the peak of device memory), `memory_high` and
    `compute_low` (percent) are those of the founding article, for its name of the verdict.
    """

    low: float = 60.0
    near: float = 80.0
    difference: float = 10.0
    bandwidth: float = 0.7
    memory_high: float = 85.0
    compute_low: float = 30.0


@rule(
    "KRN003", "compute-or-memory-bound", Severity.NOTE, settings=Thresholds, general=True,
    aliases=("achieved__memory_throughput", "memory-bandwidth-bound"),
)  # fmt: skip
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(compute(r) is None or memory(r) is None for r in kernels.own):
        yield lacking("throughput of compute and memory", "ncu --section SpeedOfLight")
    for group in worth_telling(kernels, t):
        sm, mem = compute(group.row), memory(group.row)
        if sm is None or mem is None or max(sm, mem) < t.low or abs(sm - mem) < t.difference:
            continue
        caches = mem > sm and limiter(group.row) not in ("", DRAM)
        if max(sm, mem) < t.near or caches:
            yield _finding(group, sm, mem, rules, t, (inductor, traces))


def _finding(group: Group, sm: float, mem: float, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    row = group.row
    strided = mem > sm and limiter(row) != DRAM and is_strided(row)
    dram = row.pct("gpu__dram")
    gain = 1 - dram / mem if strided and dram is not None else None
    words = _memory_words(row, sm, mem, strided) if mem > sm else _compute_words(row, sm, mem)
    fixes = against_memory(row) if mem > sm else against_compute(row)
    if mem > sm and limiter(row) != DRAM and row.value(_SECTORS) is None:
        fixes = (*fixes, _PATTERN)
    return tell(
        "KRN003",
        group,
        f"{clause(group)} {words}.",
        t,
        beside=beside,
        gain=gain,
        heard=said(rules, group, "more heavily utilized than", "high throughput", "greater than 80"),
        note=not strided,
        confidence=Confidence.LIKELY if strided else Confidence.CERTAIN,
        facts=_facts(row, sm, mem, t),
        fixes=fixes,
    )


def _memory_words(row: NcuKernel, sm: float, mem: float, strided: bool) -> str:
    where, dram = limiter(row) or "memory", row.pct("gpu__dram")
    head = f"is bound by {where} ({mem:.0f}% of its peak, arithmetic {sm:.0f}%)"
    if where == DRAM or dram is None:
        return head
    why = "since it walks over a tensor that is not contiguous" if strided else (
        "so that the same or unneeded bytes are moved several times, or the data stays in the cache"
    )  # fmt: skip
    return f"{head} while {DRAM} is at {dram:.0f}%, {why}"


def _compute_words(row: NcuKernel, sm: float, mem: float) -> str:
    return f"is bound by arithmetic ({sm:.0f}% of the multiprocessors' peak, memory {mem:.0f}%)"


def _facts(row: NcuKernel, sm: float, mem: float, t: Thresholds) -> dict[str, Fact]:
    found: dict[str, Fact] = {}
    dram = row.pct("gpu__dram")
    if (dram is not None and dram >= t.bandwidth * 100) or (mem > t.memory_high and sm < t.compute_low):
        found["bandwidth-bound"] = f"yes: {mem:.0f}% of memory's peak, device memory {dram or 0:.0f}%"
    return found
