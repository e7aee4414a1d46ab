"""The same operation on the same shapes takes very different times

What it means
    Calls of one operation, with the same kernel, the same launch and the same shapes,
    differ so much that the standard deviation is larger than the mean. Some of them wait
    for something that has nothing to do with their work.

Why it happens
    The kernel shares the device or its memory with others at times (a collective, another
    stream, another process), the clock falls under a power or heat limit, or the work
    depends on the data (sparse, ragged, sorted) though the shapes do not.

How to confirm
    Sort the calls by time and look at what else runs beside the slow ones. `nvidia-smi -q
    -d PERFORMANCE,CLOCK` while the job runs tells of throttling; `nvidia-smi` of neighbours.

How to fix
    Keep collectives from overlapping with memory-bound kernels, remove neighbours from the
    GPU, or fix cooling and power limits. If the data explain it, nothing is wrong.

Limits
    Needs recorded shapes. Collectives are judged elsewhere, and replayed CUDA graphs not at
    all.

References
    - https://docs.pytorch.org/docs/stable/profiler.html
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part, places_of


class Thresholds(Struct, frozen=True):
    """`variation`: standard deviation over mean; `calls` more than; `share` of the steps' time (as in TraceLens)."""

    variation: float = 1.0
    calls: int = 10
    share: float = 0.05


@rule("KRN021", "op-time-varies", Severity.NOTE, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One note an operation."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.kerneltimes import varying
        from necropsy.trace.opwork import opwork_of

        w = opwork_of(p)

        for v in varying(p, calls=t.calls, variation=t.variation):
            if w.share(v.ns) < t.share:
                continue
            place = v.sites[0].place if v.sites else None
            beside = f"; {part(v.beside)} of the slow calls' time ran beside a collective" if v.beside >= 0.5 else ""
            yield about(
                p,
                f"{v.operator}{in_function(place)} on the same shapes takes from {ms(v.shortest)} to {ms(v.longest)} "
                f"(median {ms(v.median)}, {v.calls} calls), {part(w.share(v.ns))} of the time: something else slows "
                f"some of them{beside}.",
                Severity.NOTE,
                shows=v.name,
                ns=w.scaled(v.excess),
                basis=w.basis,
                places=places_of(v.sites),
                confidence=Confidence.POSSIBLE,
                event=f"varies:{v.operator}@{p.input}",
                claims=frozenset({f"kernel:{v.name}@{p.input}"}),
                facts={"variation (deviation / mean)": round(v.variation, 2), "above the median": ms(v.excess)},
                fixes=(
                    Fix("Look at what runs beside the slow calls (collectives, streams, other processes)"),
                    Fix("Check clocks and power limits", command="nvidia-smi -q -d PERFORMANCE,CLOCK"),
                ),
            )
