"""A Python loop takes a GPU tensor apart element by element

What it means
    A function indexes one tensor again and again (`x[i]` for each `i`) and launches work
    for each part: a few tiny kernels each time, one after the other, each with the whole way
    through Python and the dispatcher.

Why it happens
    A recurrence, a smoothing or a loss was written as a loop over the first dimension.

How to confirm
    The trace shows `aten::select` at least ten times in one call of the function, with the same shapes.

How to fix
    Write it on the whole tensor (`cumsum`, `unfold`, matrix products, broadcasting); a true
    recurrence: `torch.compile`, `torch.nn.LSTM` or GRU, or move the small tensor to the CPU first.

Limits
    Needs stacks. `aten::select` called by a function of the user's counts, and only if kernels
    of less than 10 us on average were launched between the first and the last, at least one for every other
    select; layers called in the loop are among them. The backward pass of the loop is not counted.

References
    - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile
    from necropsy.trace.repeats import Loop


class Thresholds(Struct, frozen=True):
    """`share` of the steps that the loop's kernels and the idle time before them take, from which it is a warning."""

    share: float = 0.02


@rule("LCH013", "indexing-loop", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a function that indexes a tensor in a loop."""
    for p in traces.gpu_profiles:
        from necropsy.trace.idle import judgeable
        from necropsy.trace.repeats import indexing

        if judgeable(p):
            for loop in indexing(p):
                yield _finding(p, loop, p.share(loop.device + loop.idle) >= t.share)


def _finding(p: Profile, loop: Loop, loud: bool) -> Finding:
    often = f"{p.per_step(loop.often):,.0f} times a {p.step_word}"
    return about(
        p,
        f"A Python loop{in_function(loop.place)} indexes a GPU tensor {often} "
        f"and launches {p.per_step(len(loop.kernels)):,.0f} kernels of {ms(loop.mean)} for the parts: "
        f"{part(p.share(loop.device + loop.idle))} of the time.",
        Severity.WARNING if loud else Severity.NOTE,
        shows="aten::select again and again",
        ns=loop.idle,
        places=[loop.place],
        facts={
            f"aten::select a {p.step_word}": round(p.per_step(loop.often)),
            f"kernels a {p.step_word}": round(p.per_step(len(loop.kernels))),
            f"GPU time (ms a {p.step_word})": round(p.per_step(loop.device) / 1e6, 3),
            f"idle before them (ms a {p.step_word})": round(p.per_step(loop.idle) / 1e6, 3),
        },
        fixes=(
            Fix("Compute on the whole tensor instead of element by element", "code"),
            Fix("For a true recurrence: `torch.compile` the function, or do it on the CPU if it is small", "code"),
        ),
    )
