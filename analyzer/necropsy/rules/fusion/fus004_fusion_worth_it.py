"""Fusing element-wise operators of one function would make each step faster

What it means
    A function runs three or more element-wise operators in a row on tensors of one size,
    and their kernels take so long that one kernel in their place would spare at least a
    fiftieth of the step, by the lower of two estimates.

Why it happens
    Each element-wise kernel reads its inputs from the GPU's memory and writes its result
    back; the arithmetic between is free. Eager torch does not fuse.

How to confirm
    Wrap the function in `torch.compile` and compare the step time, or add up the kernels
    in the trace.

How to fix
    `torch.compile` the function or the module that calls it. Where that is no option, write
    the expression with operators that do more (`addcmul`, `lerp`, `F.silu`), or as a Triton
    kernel.

Limits
    The estimates say that the fused kernel takes as long as the longest of the run's
    kernels (high) or as its two longest (low); the backward pass counts with the forward.
    Kernels shorter than 5 us on average are bound by their launch, not by memory, and left
    to the rules about launches. Needs recorded shapes; what torch.compile made, optimizers
    and replayed CUDA graphs are not looked at.

References
    - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#fuse-operations
    - https://docs.pytorch.org/docs/stable/generated/torch.compile.html
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part


class Thresholds(Struct, frozen=True):
    """`gain`: estimated part of the steps' time (2 % of end to end in TraceLens); `kernel`: its mean ns at least."""

    gain: float = 0.02
    kernel: int = 5_000


@rule("FUS004", "fusion-worth-it", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a function."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.opwork import opwork_of
        from necropsy.trace.unfused import element_wise

        w = opwork_of(p)
        for u in element_wise(p):
            if w.share(u.low) < t.gain or u.ns < t.kernel * u.kernels or 2 * u.steps <= len(p.steps):
                continue
            where = f" in {u.library}" if u.library else in_function(u.place)
            yield about(
                p,
                f"Chains of element-wise operators{where} take {ms(p.per_step(u.ns))} of each {p.step_word} "
                f"({part(w.share(u.ns))} of the time) going through memory once an operator: fused, they would spare "
                f"an estimated {ms(p.per_step(u.low))} to {ms(p.per_step(u.high))}.",
                Severity.WARNING,
                shows=" ".join(u.operators),
                ns=w.scaled(u.ns),
                basis=w.basis,
                places=[u.place],
                confidence=Confidence.POSSIBLE,
                event=f"chain:{u.where}@{p.input}",
                facts={
                    "operators": " ".join(u.operators[:12]),
                    "shape": " x ".join(map(str, u.shape)),
                    "kernels": f"{round(p.per_step(u.kernels))} a {p.step_word}",
                },
                fixes=(Fix("Compile the function (`torch.compile`), which fuses the chain", "code"),),
            )
