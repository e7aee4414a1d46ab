"""What a launch reached: its speeds of light, the memory that limits it, its occupancy, and the most it could gain."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from necropsy.trace import kernelnames

if TYPE_CHECKING:
    from necropsy.evidence.ncu_kernels import NcuKernel
    from necropsy.finding import Fact

DRAM, L2, L1 = "device memory", "the L2 cache", "the L1 cache and shared memory"
NEAR: Final = 1.5  # points by which a unit may be below the memory's throughput, which is that of its busiest unit
THEORETICAL: Final = "sm__maximum_warps_per_active_cycle_pct"
_WARPS: Final = "sm__maximum_warps_avg_per_active_cycle"
_SCHEDULER_WARPS: Final = ("smsp__maximum_warps_avg_per_active_cycle", "smsp__warps_active.avg.peak_sustained")
ACHIEVED: Final = "sm__warps_active.avg.pct_of_peak_sustained_active"
ISSUE: Final = ("smsp__issue_active.avg.per_cycle_active", "smsp__issue_active.avg.pct_of_peak_sustained_active")
TENSOR: Final = (
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
)
IDLE: Final = 1.0  # percent of cycles of the tensor pipe
_PRODUCT: Final = re.compile(r"gemm|xmma|cutlass|cublas|conv", re.I)
_SIXTEEN: Final = re.compile(r"hgemm|hcudnn|fp16|bf16|f16f16|half|bfloat16|_h_|_hh_", re.I)
SHARED_PIPE: Final = 30.0  # percent
_LIMITS: Final = ("blocks", "registers", "shared_mem", "warps", "barriers")


def compute(row: NcuKernel) -> float | None:
    """Percent of the multiprocessors' peak over the kernel's time."""
    return row.pct("sm")


def memory(row: NcuKernel) -> float | None:
    """Percent of the peak of the busiest part of memory over the kernel's time."""
    told = row.pct("gpu__compute_memory")
    if told is not None:
        return told
    known = [v for v in _units(row).values() if v is not None]
    return max(known) if len(known) == len(_units(row)) else None


def limiter(row: NcuKernel) -> str:
    """Which memory its memory throughput is that of; "" where none is told."""
    units = {name: v for name, v in _units(row).items() if v is not None}
    whole = memory(row)
    if not units or whole is None:
        return ""
    return next((name for name, v in units.items() if v >= whole - NEAR), max(units, key=lambda n: units[n]))


def _units(row: NcuKernel) -> dict[str, float | None]:
    """Each part of memory in percent of its peak. L1's is mostly told of active cycles, and brought to all here."""
    l1 = row.value("l1tex__throughput.avg.pct_of_peak_sustained_elapsed")
    of_active = row.value("l1tex__throughput.avg.pct_of_peak_sustained_active")
    if l1 is None and of_active is not None and row.active is not None:
        l1 = of_active * row.active
    return {DRAM: row.pct("gpu__dram"), L2: row.pct("lts"), L1: l1}


def headroom(row: NcuKernel) -> float | None:
    """Part of its time (0 to 1) that could be saved if its busier side ran at peak: the bound of all other gains."""
    sides = [s for s in (compute(row), memory(row)) if s is not None]
    return max(0.0, 1 - max(sides) / 100) if sides else None


def latency_bound(row: NcuKernel, below: float = 60.0) -> bool | None:
    """Whether both sides are far from their peaks: 60% is NVIDIA's (SOLBottleneck); None where not collected."""
    sm, mem = compute(row), memory(row)
    return None if sm is None or mem is None else sm < below and mem < below


def theoretical(row: NcuKernel) -> float | None:
    """Percent of the warps that a multiprocessor can hold which the launch allows."""
    told = row.value(THEORETICAL)
    if told is not None:
        return told
    warps, most = row.value(_WARPS), row.value("device__attribute_max_warps_per_multiprocessor")
    if warps is not None and most:
        return warps / most * 100
    mine, all_of = row.value(_SCHEDULER_WARPS[0]), row.value(_SCHEDULER_WARPS[1])
    return _by_limits(row) if mine is None or not all_of else mine / all_of * 100


def _by_limits(row: NcuKernel) -> float | None:
    """From the blocks that fit: reports since 2025 leave the percentage to the reader."""
    fit = [v for name in _LIMITS if (v := row.value(f"launch__occupancy_limit_{name}")) is not None]
    most, threads = row.value("device__attribute_max_warps_per_multiprocessor"), row.threads
    per = row.value("smsp__warps_active.avg.peak_sustained")
    most = most if most else per * 4 if per else None
    if len(fit) < len(_LIMITS) - 1 or not most or not threads:
        return None
    return min(100.0, min(fit) * -(-threads // 32) / most * 100)


def occupancy_limiters(row: NcuKernel) -> list[str]:
    """What allows the fewest blocks on a multiprocessor: `registers`, `shared_mem`, `blocks`, `warps`, `barriers`."""
    fit = {name: v for name in _LIMITS if (v := row.value(f"launch__occupancy_limit_{name}")) is not None}
    return [name for name, v in fit.items() if v == min(fit.values())]


def issue(row: NcuKernel) -> float | None:
    """Part of its active cycles (0 to 1) in which a scheduler issued an instruction."""
    a_cycle, percent = row.value(ISSUE[0]), row.value(ISSUE[1])
    return a_cycle if a_cycle is not None else None if percent is None else percent / 100


def tensor(row: NcuKernel) -> float | None:
    """Percent of cycles in which tensor cores worked.

    The share of tensor instructions tells nothing: on Hopper one of a warpgroup does the work of many.
    """
    return row.value(*TENSOR)


def feeds_tensor_cores(row: NcuKernel) -> bool:
    """Whether few warps are by design: products that run on tensor cores.

    The pipe is shared: on an H200 a reduction without any product showed 12% (FP16 conversions), hence 30.
    """
    by_name = kernelnames.unit(row.kernel) == kernelnames.TENSOR or kernelnames.is_attention(row.kernel)
    return by_name or (tensor(row) or 0.0) >= SHARED_PIPE


def tensor_instructions(row: NcuKernel) -> float | None:
    """Instructions of the tensor pipe as a part of all (0 to 1): the article's ratio, which tells nothing on Hopper."""
    for unit in ("sm", "smsp"):
        mine = row.value(f"{unit}__inst_executed_pipe_tensor.sum")
        all_of = row.value(f"{unit}__inst_executed.sum", "smsp__inst_executed.sum")
        if mine is not None and all_of:
            return mine / all_of
    return None


def could_use_tensor_cores(row: NcuKernel) -> bool:
    """Whether a kernel is, by its name, a product whose numbers the tensor cores of its GPU take.

    In 16 bits, or in FP32 on a GPU without TF32, whose users must go to FP16 (with TF32 it is KRN019's).
    """
    name = row.kernel
    if kernelnames.unit(name) in (kernelnames.TENSOR, kernelnames.VECTOR) or kernelnames.is_double(name):
        return False
    if kernelnames.is_single(name):
        return row.capability is not None and (7, 0) <= row.capability < (8, 0)
    product = _PRODUCT.search(name) is not None or kernelnames.is_convolution(name)
    return product and _SIXTEEN.search(name) is not None


def figures(row: NcuKernel) -> dict[str, Fact]:
    """Facts that every finding about a launch bears, as far as collected."""
    found: dict[str, Fact] = {}
    if (sm := compute(row)) is not None:
        found["compute"] = f"{sm:.0f}% of peak"
    if (mem := memory(row)) is not None:
        found["memory"] = f"{mem:.0f}% of peak" + (f" ({limiter(row)})" if limiter(row) else "")
    if (achieved := row.value(ACHIEVED)) is not None:
        most = theoretical(row)
        found["occupancy"] = f"{achieved:.0f}%" + (f" of at most {most:.0f}%" if most is not None else "")
    if (slots := issue(row)) is not None:
        found["issue slots"] = f"{slots * 100:.0f}% used"
    return found
