"""The GPU is idle for much of the time

What it means
    For this part of the steps nothing ran on the GPU. The facts say what the host did
    meanwhile; findings about those parts, where there are any, say more and carry the cost.

Why it happens
    The host waits for data, compiles, asks for memory, waits for the GPU itself, or does not
    launch work as fast as the GPU gets done with it.

How to confirm
    Look at the GPU's rows of the trace in Perfetto: between the kernels there is nothing.

How to fix
    Begin with the largest part.

Limits
    Recording slows the host down, with stacks and shapes most of all, and makes idle time
    look longer than it is without the profiler. Not judged where CUDA graphs are replayed,
    for traces of the CPU alone, for fewer than 50 kernels, and where the clocks of host and
    device disagree.

References
    - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    - https://github.com/facebookresearch/HolisticTraceAnalysis
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
    """`share` of the steps without work from which it is told (TraceLens: 15 %).

    It is a warning from `high` on if no more special finding owns that much.
    """

    share: float = 0.15
    high: float = 0.5


@rule("LCH001", "gpu-idle", Severity.NOTE, settings=Thresholds, general=True)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a trace whose device idles."""
    for p in traces.gpu_profiles:
        from necropsy.trace.idle import idle_share, in_most_steps, judgeable

        if not judgeable(p) or idle_share(p) < t.share:
            continue
        step = p.steps.length - p.rank.busy.within(p.steps.start, p.steps.end)
        if in_most_steps(p, p.steps.start, step, t.share):
            yield _finding(p, t)


def _finding(p: Profile, t: Thresholds) -> Finding:
    from necropsy.trace.idle import idle_share, own_idle, story
    from necropsy.trace.partition import BUCKETS

    own = own_idle(p).total
    parts = story(p)
    told = ", ".join(f"{part(p.share(ns))} {b}" for b, ns in parts)
    idle = f"{part(idle_share(p))} of each {p.step_word} ({ms(p.per_step(p.partition.idle))})"
    loud = p.share(own) >= t.high and len(p.steps) > 1
    return about(
        p,
        f"The GPU is idle for {idle}: {told}.",
        Severity.WARNING if loud else Severity.NOTE,
        shows="no work on any stream of the device",
        ns=own if loud else None,
        event=f"idle@{p.input}",
        facts={b: f"{part(p.share(ns))}: {BUCKETS[b]}" for b, ns in parts},
        fixes=(Fix(f"Begin with the largest part: {parts[0][0]}", "investigate"),) if parts else (),
    )
