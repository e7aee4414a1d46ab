"""GPU memory grows by the same amount in every step

What it means
    At the end of each profiled step more memory is in use than at the end of the one
    before, by about the same amount: something keeps what each step made. At this rate
    the run ends with an out-of-memory error.

Why it happens
    A list of losses or outputs that still carry their graphs (`history.append(loss)`), a
    graph kept by `retain_graph=True` or by a metric, hooks that store activations, a cache
    without a limit.

How to confirm
    `torch.cuda.memory_allocated()` printed at the end of each step rises steadily;
    `torch.cuda.memory._record_memory_history()` shows who allocated what stays.

How to fix
    Keep numbers, not tensors with graphs: `loss.detach()` (or `.item()` every n steps);
    drop `retain_graph=True`; clear what hooks collect.

Limits
    Needs `profile_memory=True` and three steps or more. The trace tells where the memory
    was allocated that stays, not who holds on to it: named is first the function that runs
    the backward pass, at whose end it should be free, then the one that made it. Without a
    backward pass growth may be meant (a key-value cache): a note.

References
    - https://docs.pytorch.org/docs/stable/notes/faq.html
    - https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, named
from necropsy.units import human_bytes, percent

if TYPE_CHECKING:
    from necropsy.trace.memory import Curve, Growth
    from necropsy.trace.profile import Profile


class Thresholds(Struct, frozen=True):
    """`steps` until the GPU is full, at most, for the growth to be told."""

    steps: int = 20_000


@rule("OOM003", "memory-creep", Severity.WARNING, settings=Thresholds, aliases=("memory-leak",))
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a GPU whose memory rises in each step."""
    for p in traces.profiles:
        from necropsy.trace.memory import curves, growth

        for curve in curves(p):
            found = growth(p, curve)
            if found is not None and found.until <= t.steps:
                yield _finding(p, curve, found)


def _finding(p: Profile, curve: Curve, found: Growth) -> Finding:
    from necropsy.trace.memory import backward_sites, kept_sites, trains

    made = kept_sites(p, curve)
    kept = sum(s.ns for s in made)
    back = [s.place for s in backward_sites(p)[:1] if s.place is not None]
    first = made[0].place if made else None
    where = ""
    if first is not None and kept:
        where = f", {percent(made[0].ns / kept)} of it made{in_function(first)}"
        if back and named(back[0]) != named(first):
            where += f" and still held behind the backward pass that {named(back[0])} runs"
    then = f"; at this rate the GPU is full after {found.until:,} more steps" if found.until else ""
    return about(
        p,
        f"GPU memory grows by {human_bytes(found.each)} in every step{where}{then}.",
        Severity.WARNING if trains(p) else Severity.NOTE,
        shows="[memory] events, Total Allocated at the ends of steps",
        places=[*back, *(s.place for s in made[:2])],
        facts={
            "steps that grow": len(p.steps),
            "in use at the end": human_bytes(found.last),
            "kept, by function": [f"{named(s.place) or '?'}: {percent(s.ns / kept)}" for s in made[:3]],
        },
        fixes=(
            Fix("Store numbers, not tensors with graphs: `history.append(loss.detach())`", "code"),
            Fix("Drop `retain_graph=True`, and clear lists that hooks or metrics fill", "code"),
        ),
    )
