"""The program waits for the GPU on purpose in every step

What it means
    A call that does nothing but wait for the GPU (`torch.cuda.synchronize()`, `synchronize()` of
    a stream or an event) runs in most steps. While the host waits it launches nothing, so
    that the GPU runs dry and idles until the host has caught up.

Why it happens
    Code that measured times was left in the loop; a wait was put in to be on the safe side;
    another library hands tensors over and waits for them.

How to confirm
    Take the call out and compare the time of a hundred steps. In the trace, the call stands
    on the host's thread above the end of the last kernel, and the GPU is empty behind it.

How to fix
    Measure with `torch.cuda.Event(enable_timing=True)` and read the times once at the end; let
    streams wait for each other with `wait_event` or `wait_stream`, which do not hold the host.

Limits
    The cost is the part of the GPU's gap behind the wait that the host would not have needed
    had it not waited: at most as long as it waited. Waits of the profiler, of data loading,
    of checkpoints, of sharded training and of the allocator are not meant; barriers are DST022's.

References
    - https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
    - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part, times

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile
    from necropsy.trace.waiting import WaitSite


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time, and `least` ns of all of them, from which it is a warning: nsys-ai's 2 % and 1 ms."""

    share: float = 0.02
    least: int = 1_000_000


@rule("SYN001", "explicit-synchronisation", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a function that waits for the device in most steps."""
    for p in traces.gpu_profiles:
        from necropsy.trace.idle import judgeable
        from necropsy.trace.waiting import EXPLICIT, recurring, sites

        if not judgeable(p):
            continue
        for site in sites(p, (EXPLICIT,)):
            loud = p.share(site.idle) >= t.share and site.idle >= t.least
            # Without a function to name, a wait that costs nothing is nothing to know.
            if recurring(p, site) and (loud or site.place is not None):
                yield _finding(p, site, loud)


def _finding(p: Profile, site: WaitSite, loud: bool) -> Finding:
    idle = ms(p.per_step(site.idle))
    consequence = (
        f"the GPU then idles {idle} a {p.step_word} ({part(p.share(site.idle))} of the time) until the host has "
        "launched again"
        if loud
        else f"here that costs {idle} a {p.step_word}"
    )
    return about(
        p,
        f"{site.spelled}{in_function(site.place)} makes the host wait for the GPU {times(p.per_step(site.count))} a "
        f"{p.step_word}; {consequence}.",
        Severity.WARNING if loud else Severity.NOTE,
        shows=f"{site.spelled.strip('`')} outside any operator",
        ns=site.idle,
        places=[site.place],
        facts={
            f"waits a {p.step_word}": round(p.per_step(site.count), 1),
            f"host waits (ms a {p.step_word})": round(p.per_step(site.blocked) / 1e6, 3),
        },
        fixes=(
            Fix("Take the wait out of the loop; time with `torch.cuda.Event(enable_timing=True)`", "code"),
            Fix("Order streams with `wait_event`/`wait_stream`, which do not hold the host", "code"),
        ),
    )  # fmt: skip
