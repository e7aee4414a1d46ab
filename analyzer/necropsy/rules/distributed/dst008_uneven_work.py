"""One rank has more to do in each step than the others

What it means
    Between collectives this rank is busy longer than the others, step after step. Since
    every step ends together, the others spend the difference waiting inside collectives.

Why it happens
    Batches of different sizes (padding, unbalanced samplers, experts), a stage or shard
    with more layers, extra work of rank 0, a slower GPU or loader.

How to confirm
    Compare the time outside collectives, as this rule does; the wall time of backward is
    the same on all ranks, because DDP makes them wait for each other in it.

How to fix
    Balance what the named part of the step does across ranks.

Limits
    Stages of a pipeline are DST013's. It compares durations on each rank's own clock, and so needs no common one; where
    clocks agree, DST007 tells more and this rule keeps silent. No part of the step is
    named unless it accounts for 80 % of the difference.

References
    - https://github.com/traceopt-ai/traceml
    - https://docs.pytorch.org/docs/stable/notes/ddp.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.aligned_ranks import AlignedRanks
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part

if TYPE_CHECKING:
    from necropsy.trace.fleet import Fleet
    from necropsy.trace.straggler import Uneven


class Thresholds(Struct, frozen=True):
    """`share` of a step by which the rank works longer: 10 % (TraceML's culprit and victim).

    `coverage`: part of the difference that one part of the step must explain (80 %,
    likewise); `steps`: part of the steps in which the rank is the busiest.
    """

    share: float = 0.10
    coverage: float = 0.8
    steps: float = 0.66


@rule("DST008", "uneven-work", Severity.WARNING, settings=Thresholds, general=True)
def check(traces: Traces, ranks: AlignedRanks, t: Thresholds) -> Iterator[Finding]:
    """One finding a job whose clocks cannot be compared, or whose collectives cannot be paired."""
    for fleet in traces.fleets:
        from necropsy.trace.parallel import stages
        from necropsy.trace.straggler import uneven

        if fleet.trusted or stages(fleet) is not None:
            continue
        found = uneven(fleet, t.steps)
        if found is None or not found.cause.distinct:
            continue
        if found.share >= t.share and found.cause.coverage >= t.coverage:
            yield _told(fleet, found)


def _told(fleet: Fleet, u: Uneven) -> Finding:
    from necropsy.trace.straggler import DOING

    p, cause = u.profile, u.cause
    first = cause.places[0] if cause.places else None
    return about(
        p,
        f"Rank {p.origin.rank} is busy {ms(u.more)} longer in each step than the other ranks ({part(u.share)} of it), "
        f"which wait for it in collectives: it {DOING[cause.bucket]}{in_function(first)} longer.",
        Severity.WARNING,
        shows="time of each step outside collectives",
        ns=int(u.more * len(p.steps)),
        places=cause.places,
        event=f"straggler@{p.input}",
        facts={
            "busy outside collectives": [f"rank {r}: {ms(ns)}" for r, ns in u.busy],
            "steps in which it is the busiest": part(u.steps),
            "explained by": f"{cause.bucket}, {part(cause.coverage)} of the difference",
            "ranks compared": list(fleet.ranks),
        },
        fixes=(Fix(f"Balance the work{in_function(first)} across ranks", "code"),),
    )
