"""Launches take long to reach the GPU

What it means
    The GPU was idle while a launch call was under way for more than 50 us, or while a kernel
    that had been launched did not begin for more than 100 us.

Why it happens
    The processor is overloaded or throttled, or shared with data loading; a driver or
    virtual machine makes each call slow; other processes use the same GPU; modules are loaded at
    their first launch in step after step.

How to confirm
    Compare with the usual 3 to 10 us of a launch call and of its way to the device. `top` shows
    whether cores are free.

How to fix
    Give the process cores of its own (`taskset`, `numactl`, fewer DataLoader workers or threads), use
    CUDA graphs, look for other processes on the GPU.

Limits
    A launch that takes long because its queue is full costs nothing (the GPU is busy)
    and is not counted; neither are launches while compiling.

References
    - https://github.com/facebookresearch/HolisticTraceAnalysis
    - https://docs.nvidia.com/cuda/cuda-c-programming-guide/#lazy-loading
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, ms, part

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time in such launches from which it is told; the share is our own."""

    share: float = 0.05


@rule("LCH006", "slow-launches", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """At most one finding for slow calls and one for late kernels a trace."""
    for p in traces.gpu_profiles:
        from necropsy.trace.idle import gaps_of, in_most_steps, judgeable
        from necropsy.trace.late import delays, slow_launches

        if not judgeable(p) or len(p.steps) < 2:
            continue
        g = gaps_of(p)
        slow = slow_launches(p)
        calls = int(g.own[slow].sum())
        if p.share(calls) >= t.share and in_most_steps(p, g.start[slow], g.own[slow], t.share):
            yield _finding(p, "calls that launch kernels take more than 50 us", int(slow.sum()), calls)
        late, _ = delays(p)
        if p.share(late.total) >= t.share and in_most_steps(p, g.start[late.rows], late.ns, t.share):
            words = "kernels begin more than 100 us after their launch, on an idle GPU"
            yield _finding(p, words, len(late.rows), late.total)


def _finding(p: Profile, words: str, count: int, ns: int) -> Finding:
    return about(
        p,
        f"{p.per_step(count):.3g} times a {p.step_word} {words}: the GPU waits {ms(ns / max(1, count))} for each "
        f"on average, {part(p.share(ns))} of the time.",
        Severity.WARNING,
        shows=words,
        ns=ns,
        claims=frozenset({f"idle@{p.input}"}),
        facts={
            f"times a {p.step_word}": round(p.per_step(count), 1),
            f"idle (ms a {p.step_word})": round(p.per_step(ns) / 1e6, 2),
        },
        fixes=(
            Fix(
                "Give the process free cores (`taskset`, `numactl`); see with `top` who competes for them",
                "investigate",
            ),
            Fix("See with `nvidia-smi` whether other processes use the GPU", "investigate"),
        ),
    )
