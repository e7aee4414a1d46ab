"""The training loop collects garbage

What it means
    `gc.collect()` ran inside the profiled steps, and the device ran nothing meanwhile: a full
    collection visits every object of the process, which takes the longer the more the data set
    and the libraries keep.

Why it happens
    A call in the loop, often beside `torch.cuda.empty_cache()` against running out of
    memory (which it does not help: tensors are freed when their last reference goes), or a library's.

How to confirm
    Leave the call out: the steps become shorter by the time reported here, and memory
    stays where it was unless objects refer to each other in a circle.

How to fix
    Remove the call, or make it once an epoch. Against collections that the interpreter makes on its own:
    `gc.freeze()` after setup, or `gc.disable()` and one `gc.collect(1)` every some
    hundred steps (on all ranks in the same one).

Limits
    Only calls of `gc.collect()` are seen: torch's profiler records no event for
    the interpreter's own collections. It needs `with_stack=True`.

References
    - https://docs.python.org/3/library/gc.html
    - https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
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


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time if most steps collect; `once`, if fewer do. 2 % is what nsys-ai reports waits from."""

    share: float = 0.02
    once: float = 0.10


@rule("DAT006", "garbage-collection", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a rank whose steps stand still for the collector."""
    for p in traces.profiles:
        bucket = p.partition.buckets["collecting garbage"]
        steps = int((bucket > 0).sum())
        least = t.share if 2 * steps > len(p.steps) else t.once
        if steps and not p.graphs and p.share(int(bucket.sum())) >= least:
            yield _finding(p, steps)


def _finding(p: Profile, steps: int) -> Finding:
    from necropsy.trace.pauses import sites_in

    ns = p.partition.total("collecting garbage")
    sites = sites_in(p, p.activity.collecting)
    first = sites[0].place if sites else None
    calls = sum(s.count for s in sites)
    idle = "while the GPU does nothing" if not p.cpu_only else "while nothing else runs"
    return about(
        p,
        f"`gc.collect()`{in_function(first)} takes {ms(ns / max(steps, 1))} in {steps} of {len(p.steps)} "
        f"{p.step_word}s ({part(p.share(ns))} of the time), {idle}.",
        Severity.WARNING,
        shows="<built-in function collect>",
        ns=ns,
        places=[first],
        event=f"collecting@{p.input}",
        facts={"collections": calls, "each (ms)": round(sum(s.ns for s in sites) / max(calls, 1) / 1e6, 1)},
        fixes=(
            Fix("Take the call out of the loop, or make it once an epoch; it does not free tensors that are in use",
                "code"),
            Fix("Against the interpreter's own collections: `gc.freeze()` after setup", "code"),
        ),
    )  # fmt: skip
