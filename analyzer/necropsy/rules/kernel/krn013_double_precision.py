"""A kernel computes in FP64 where the GPU is built for FP32

What it means
    A noticeable part of the FP64 peak is used and little of FP32's. On all GPUs FP64 is slower: half as fast on those
    for computing centres, 1/64 on others.

Why it happens
    A tensor is float64 because it came from NumPy or from Python numbers (`torch.from_numpy`, `dtype=float`), or a
    constant without `f` makes an expression of CUDA double.

How to confirm
    `ncu --section SpeedOfLight_RooflineChart`: the achieved part of the FP64 peak above 15%.

How to fix
    Convert once with `.float()`, create with `dtype=torch.float32`; in CUDA write `0.5f`, `sqrtf`.

Limits
    NVIDIA's thresholds: FP64 above 15% and FP32 below 60% of peak. Where both are above 60%, ordinary cores are full,
    and a note says so. Whether the result needs FP64 a report cannot tell: a solver may. Products of FP64 are told in a
    trace by KRN023.

References
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#roofline-charts
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Cost, Finding, Fix, Severity
from necropsy.ncu.advice import is_own
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule

_CAST: Final = Fix("Convert once, where the tensor is made", "code", command="x = x.float()")
_LITERALS: Final = Fix("Write constants and functions of single precision: `0.5f`, `sqrtf`, `expf`", "code")
_PIPE: Final = (
    "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
)


_TOLD: Final = re.compile(
    r"(?i)achieved (?:close to )?(?P<single>\d+)% of this device's fp32 peak performance and (?:close to )?"
    r"(?P<double>\d+)% of its fp64 peak"
)
_OTHERS: Final = Fix("Move part of it to other units: tensor cores (products), 16-bit pairs (`__half2`)", "code")


class Thresholds(Weight, frozen=True):
    """NVIDIA's: percent of the FP64 peak above which, and of FP32's below which it counts.

    `full`: percent of both from which ordinary cores have no room.
    """

    double: float = 15.0
    single: float = 60.0
    full: float = 60.0


@rule("KRN013", "double-precision", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(_shares(r, rules)[0] is None for r in kernels.own):
        yield lacking("FP64 instructions", "ncu --section SpeedOfLight_RooflineChart --section ComputeWorkloadAnalysis")
    for group in worth_telling(kernels, t):
        double, known = _shares(group.row, rules)
        single = known or 0.0
        if double is None or double <= t.double:
            continue
        if single < t.single:
            yield _finding(group, double, rules, t, (inductor, traces))
        elif min(single, double) >= t.full:
            yield _both(group, double, single, t, (inductor, traces))


def _shares(row: NcuKernel, rules: NcuRules) -> tuple[float | None, float | None]:
    """Percent of the peaks of FP64 and FP32: measured, else as NVIDIA's rule tells them on pages without metrics."""
    double, single = _used(row, "d"), _used(row, "f")
    if double is not None:
        return double, single
    told = next((m for r in rules.of(row.seq) if (m := _TOLD.search(r.message)) is not None), None)
    return (None, single) if told is None else (float(told["double"]), float(told["single"]))


def _used(row: NcuKernel, letter: str) -> float | None:
    """Percent of the peak of an arithmetic: by operations, else (FP64) by cycles of its pipe."""
    prefix = f"smsp__sass_thread_inst_executed_op_{letter}"
    parts = {op: row.value(f"{prefix}{op}_pred_on.sum.per_cycle_elapsed") for op in ("add", "mul", "fma")}
    most = row.value(f"sm__sass_thread_inst_executed_op_{letter}fma_pred_on.sum.peak_sustained")
    if most and all(v is not None for v in parts.values()):
        add, mul, fma = (v or 0.0 for v in parts.values())
        return (add + mul + 2 * fma) / (2 * most) * 100
    return row.value(*_PIPE) if letter == "d" else None


def _finding(group: Group, double: float, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    return tell(
        "KRN013",
        group,
        f"{clause(group)} computes in FP64, at {double:.0f}% of its peak: in FP32 the same arithmetic takes half the "
        "time or less, and half the bytes.",
        t,
        beside=beside,
        gain=double / 100 / 2,
        heard=said(rules, group, "fp64 peak performance and", "double precision"),
        confidence=Confidence.LIKELY,
        facts={"FP64": f"{double:.0f}% of peak"},
        fixes=(_CAST,) if not is_own(group.row) else (_LITERALS, _CAST),
    )


def _both(group: Group, double: float, single: float, t: Thresholds, beside: Beside) -> Finding:
    return tell(
        "KRN013",
        group,
        f"{clause(group)} computes in FP32 and FP64 at once, at {single:.0f}% and {double:.0f}% of their peaks: "
        "ordinary cores are full, and only other units (tensor cores, 16 bits) could do part of it.",
        t,
        beside=beside,
        note=True,
        cost=Cost(),
        facts={"FP64": f"{double:.0f}% of peak", "FP32": f"{single:.0f}% of peak"},
        fixes=(_OTHERS, _CAST),
    )
