"""Copies or memsets are made with blocking calls

What it means
    `cudaMemcpy` (not `cudaMemcpyAsync`) returns when the copy is done and everything that
    was submitted before it on the default stream, so that the host cannot prepare further
    work meanwhile.

Why it happens
    PyTorch itself uses the asynchronous calls. Blocking ones come from extensions, from
    other libraries on the same GPU, or from code that calls the runtime directly.

How to confirm
    The trace has calls named `cudaMemcpy` or `cudaMemset` under the named function.

How to fix
    Use the asynchronous variant on torch's current stream
    (`at::cuda::getCurrentCUDAStream()`) from pinned memory, and wait once, where the
    result is needed.

Limits
    The cost is the time in which the device did nothing but these copies. That in which it
    idles since the host was blocked is told by the rules of family SYN.

References
    - https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html
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
    from necropsy.trace.profile import Profile, Site


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time spent in the blocking calls of one function (Nsight Systems' rule has no limit)."""

    share: float = 0.01


@rule("MEM004", "blocking-memcpy", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a function that copies with blocking calls in most steps."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.copies import MOST_SITES, blocking_calls, seen_often

        for site in p.call_sites(blocking_calls(p))[:MOST_SITES]:
            if p.share(site.ns) >= t.share and seen_often(p, p.rank.calls["start"][site.rows]):
                yield _finding(p, site)


def _finding(p: Profile, site: Site) -> Finding:
    from necropsy.trace.copies import exposed_of_calls

    names = p.top_names(p.rank.calls, site.rows, 2)
    return about(
        p,
        f"{p.per_step(site.count):.0f} blocking calls of {' and '.join(names)} a {p.step_word}"
        f"{in_function(site.place)} hold the host for {ms(p.per_step(site.ns))} ({part(p.share(site.ns))} of the "
        "time): no further work is submitted until each is done.",
        Severity.WARNING,
        shows=" or ".join(names),
        ns=exposed_of_calls(p, site.rows),
        places=[site.place],
        facts={"calls a step": round(p.per_step(site.count), 1), "host time a step (ms)": round(
            p.per_step(site.ns) / 1e6, 3)},
        fixes=(
            Fix("Use the asynchronous variant on torch's current stream, from pinned memory", "code"),
            Fix("Keep the data on the GPU, if the copy only serves a call that could read it there", "code"),
        ),
    )  # fmt: skip
