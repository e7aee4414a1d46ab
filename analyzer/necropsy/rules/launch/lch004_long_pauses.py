"""The GPU stands still for long while the host is in one function

What it means
    Several times a run, and in most steps, nothing ran on the GPU for milliseconds, and each
    time the host was in the same function. It is not that launches are slow: the host does
    something else.

Why it happens
    Metrics computed with NumPy, logging, files, images, sleeping; an operator that prepares
    something anew for every shape.

How to confirm
    `py-spy dump` in the middle of a step shows that function; in the trace, the GPU is empty
    above it.

How to fix
    Do it every so many steps, in another process, or on the GPU; overlap it with work that
    was launched before.

Limits
    The function is what the main thread was in at most of nine points of each gap. Gaps that
    follow from waits, loading, compiling, saving, allocation or other threads belong to other findings.
    Functions of torch's own count from 5 ms on average: below that they launch work.

References
    - https://github.com/GindaChen/nsys-ai
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, named, part

if TYPE_CHECKING:
    from necropsy.trace.bubbles import Bubbles
    from necropsy.trace.profile import Profile


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time of one cause; 5 % is our own (nsys-ai asks for three gaps above 1 ms)."""

    share: float = 0.05


@rule("LCH004", "long-pauses", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a cause of long gaps."""
    for p in traces.gpu_profiles:
        from necropsy.trace.bubbles import bubbles_of
        from necropsy.trace.idle import judgeable

        if judgeable(p, kernels=2 * max(2, len(p.steps))):
            for group in bubbles_of(p):
                if p.share(group.ns) >= t.share:
                    yield _finding(p, group)


def _finding(p: Profile, b: Bubbles) -> Finding:
    count, each = len(b.rows), ms(b.ns / len(b.rows))
    return about(
        p,
        f"The GPU is idle {count} times for {each} on average ({part(p.share(b.ns))} of the time) while {_cause(b)}.",
        Severity.WARNING if len(p.steps) > 1 else Severity.NOTE,
        shows=f"gaps above 1 ms on the GPU{' during ' + b.doing if b.doing else ''}",
        ns=b.ns,
        places=[b.place],
        claims=frozenset({f"idle@{p.input}"}),
        facts={
            "gaps": count,
            "steps with such a gap": f"{b.steps} of {len(p.steps)}",
            "longest (ms)": round(b.longest / 1e6, 1),
        },
        fixes=_FIXES,
    )


def _cause(b: Bubbles) -> str:
    if b.place is None:
        return f"the host is in {b.doing}"
    if b.doing:
        return f"the host is in {b.doing}, called {'by' if b.place.function else 'at'} {named(b.place)}"
    return f"the host is{in_function(b.place)}"


_FIXES = (
    Fix("Do it every so many steps, in another process or thread, or on the GPU", "code"),
    Fix("Launch the next step's work before it, so that the GPU has something to do", "code"),
)
