"""A kernel adds and multiplies in two instructions where one would do

What it means
    A product followed by a sum is one instruction (FMA) if the compiler may contract them. Here many are executed
    apart, in a kernel that arithmetic limits: it does more instructions than it needs.

Why it happens
    Compiled with `-fmad=false` (or `-use_fast_math` switched off by hand), written with `__fmul_rn` and `__fadd_rn`,
    or the sums and products simply do not belong together.

How to confirm
    `ncu --section InstructionStats`: the counts of fused and non-fused instructions.

How to fix
    Allow contraction (`-fmad=true`, the default; `enable_fp_fusion=True` in Triton), write `fmaf(a, b, c)`.

Limits
    How many of them could be paired no count tells: at most half. Kernels of libraries are not judged. 10% is NVIDIA's
    threshold.

References
    - https://docs.nvidia.com/cuda/floating-point/index.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.numbers import natural

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.ncu_rules import NcuRule, NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.ncu.advice import OWN, kind_of
from necropsy.ncu.figures import compute, memory
from necropsy.ncu.groups import Group
from necropsy.ncu.story import Beside, Weight, clause, said, tell, worth_telling
from necropsy.rule import Judged, lacking, rule
from necropsy.trace.claim import part

_TOLD: Final = re.compile(r"executes (\d+) fused and (\d+) non-fused FP(32|64)")
_ALLOW: Final = Fix("Let the compiler contract: `-fmad=true` for nvcc, `enable_fp_fusion=True` for Triton", "flag")
_WRITE: Final = Fix("Write the pair as one: `fmaf(a, b, c)`", "code")
_LANES: Final = (("FP32", "f"), ("FP64", "d"))


class Thresholds(Weight, frozen=True):
    """When it counts.

    `apart`: part of the instructions (NVIDIA's 10%); `busy`: percent of arithmetic's peak from which it matters.
    """

    apart: float = 0.1
    busy: float = 60.0


@rule("FUS009", "unfused-multiply-add", Severity.WARNING, settings=Thresholds, general=True)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(_apart(r, rules.of(r.seq)) is None for r in kernels.own):
        yield lacking(
            "fused and other instructions", "ncu --section InstructionStats --section SpeedOfLight_RooflineChart"
        )
    for group in worth_telling(kernels, t):
        row = group.row
        sm, found = compute(row) or 0.0, _apart(row, rules.of(row.seq))
        if kind_of(row) == OWN and found is not None and found[1] > t.apart and sm >= max(t.busy, memory(row) or 0.0):
            yield _finding(group, *found, rules, t, (inductor, traces))


def _apart(row: NcuKernel, heard: list[NcuRule]) -> tuple[str, float] | None:
    """The arithmetic, and the part of its instructions (0 to 1) that are sums or products alone."""
    for name, letter in _LANES:
        add, mul, fma = (
            row.value(f"smsp__sass_thread_inst_executed_op_{letter}{op}_pred_on.sum.per_cycle_elapsed")
            for op in ("add", "mul", "fma")
        )
        if add is not None and mul is not None and fma is not None and add + mul + fma > 0:
            return name, 2 * min(add, mul) / (add + mul + fma)  # a pair is one of each
    for r in heard:
        if (m := _TOLD.search(r.message)) is not None and (whole := natural(m[1]) + natural(m[2])):
            return f"FP{m[3]}", natural(m[2]) / whole
    return None


def _finding(group: Group, name: str, apart: float, rules: NcuRules, t: Thresholds, beside: Beside) -> Finding:
    return tell(
        "FUS009",
        group,
        f"{clause(group)} executes {part(apart)} of its {name} arithmetic as separate sums and products, while "
        "arithmetic is its limit: pairs of them could be one instruction.",
        t,
        beside=beside,
        gain=apart / 2 * (compute(group.row) or 0.0) / 100,
        heard=said(rules, group, "non-fused"),
        confidence=Confidence.POSSIBLE,
        facts={"not fused": part(apart)},
        fixes=(_ALLOW, _WRITE),
    )
