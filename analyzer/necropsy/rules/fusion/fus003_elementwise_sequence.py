"""A sequence of element-wise kernels runs again and again in one function

What it means
    One function launches the same run of element-wise operators on one tensor size, again
    and again. They could be one kernel. What that would spare is too little, or too
    uncertain, for a warning (FUS004).

Why it happens
    Eager torch runs each operator of an expression as a kernel of its own.

How to confirm
    Look at the function in the trace: the operators named here follow each other.

How to fix
    `torch.compile` the function or its module; use operators that do several things at
    once (`addcmul`, `lerp`, `F.silu`), or work in place of it all on fewer tensors.

Limits
    A note. Needs recorded shapes; Python stacks tell the function. What torch.compile
    made, optimizers and replayed CUDA graphs are not looked at.

References
    - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#fuse-operations
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part, times


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time that the kernels take; `kernel`: mean ns of one; `most` sequences told (by time).

    Shorter kernels are bound by their launches, which are other rules' subject.
    """

    share: float = 0.03
    kernel: int = 5_000
    most: int = 2


@rule("FUS003", "elementwise-sequence", Severity.NOTE, settings=Thresholds, general=True)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """A note for each of the dearest sequences."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.opwork import opwork_of
        from necropsy.trace.unfused import element_wise

        w = opwork_of(p)
        for u in element_wise(p)[: t.most]:
            if w.share(u.ns) < t.share or 2 * u.steps <= len(p.steps) or u.ns < t.kernel * u.kernels:
                continue
            where = f" in {u.library}" if u.library else in_function(u.place)
            often = times(u.calls / max(1, len(p.steps))).capitalize()
            yield about(
                p,
                f"{often} a {p.step_word}{where} {len(u.operators)} element-wise "
                f"operators in a row each go through memory: {ms(p.per_step(u.ns))} of each {p.step_word} "
                f"({part(w.share(u.ns))} of the time).",
                Severity.NOTE,
                shows=" ".join(u.operators),
                ns=w.scaled(u.ns),
                basis=w.basis,
                places=[u.place],
                confidence=Confidence.POSSIBLE,
                event=f"chain:{u.where}@{p.input}",
                facts={
                    "operators": " ".join(u.operators[:12]),
                    "estimated gain": f"{ms(p.per_step(u.low))} to {ms(p.per_step(u.high))} a {p.step_word}",
                },
                fixes=(Fix("Compile the function (`torch.compile`), which fuses the sequence", "code"),),
            )
