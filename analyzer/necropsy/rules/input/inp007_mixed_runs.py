"""Traces of different jobs are read together

What it means
    The traces say that they belong to jobs of different sizes, or two of them are the same rank of
    the same moment. What is compared between ranks (late ranks, clocks) is then wrong.

Why it happens
    The folder holds the traces of several runs; one file was copied under two names.

How to confirm
    `distributedInfo` at the head of each trace names its rank and the number of ranks.

How to fix
    Give the traces of one run at a time.

Limits
    Two runs of the same size cannot be told from two windows of one run.

References
    - https://docs.pytorch.org/docs/stable/profiler.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy_parsers.trace.model import Trace

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Role, Severity
from necropsy.rule import rule


@rule("INP007", "mixed-runs", Severity.WARNING)
def check(traces: Traces) -> Iterator[Finding]:
    """At most one finding."""
    told = [t for t in traces.traces if t.meta.world is not None and t.meta.rank is not None]
    sizes = sorted({t.meta.world for t in told if t.meta.world is not None})
    twins = _twins(told)
    if len(sizes) < 2 and not twins:
        return
    some = told[0] if not twins else twins[0]
    what = (
        f"The traces are of jobs with {' and '.join(str(s) for s in sizes)} ranks"
        if len(sizes) > 1
        else f"{twins[0].anchor.input} and {twins[1].anchor.input} are the same recording of rank {twins[0].meta.rank}"
    )
    yield Finding(
        message=f"{what}: comparisons between ranks mean nothing.",
        anchor=some.anchor,
        severity=Severity.WARNING,
        role=Role.SYMPTOM,
        facts={"traces": len(traces.traces), "sizes": sizes},
        fixes=(Fix("Give the traces of one run at a time", "investigate"),),
        event="mixed runs",
    )


def _twins(traces: list[Trace]) -> list[Trace]:
    """Two traces of one rank that hold the same events."""
    seen: dict[tuple[int | None, int, int, tuple[str, ...]], Trace] = {}
    for t in traces:
        if t.events and (key := (t.meta.rank, t.meta.base, t.events, tuple(t.names[:50]))) in seen:
            return [seen[key], t]
        seen[t.meta.rank, t.meta.base, t.events, tuple(t.names[:50])] = t
    return []
