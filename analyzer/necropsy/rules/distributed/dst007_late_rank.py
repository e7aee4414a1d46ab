"""One rank comes last to the collectives; all others wait for it

What it means
    In most steps the same rank reached its collectives later than all others, which stood
    in them with nothing to compute until it came. The job runs at the speed of that rank.
    What it did more of than the others, while it waited for nobody, is said with it.
    A rank that does the same as the others, more slowly, is a note.

Why it happens
    Work that only one rank does (logging, saving, extra computing), a slower loader or
    disk, more data on one rank than on others, a throttled GPU, or a busy neighbour on its
    host.

How to confirm
    The other ranks' kernels of the same collective are longer by about the time reported
    here, and end with those of the late one.

How to fix
    Take the work that only this rank does out of the step, or share it out; give all ranks
    batches of about the same size; if the late rank does the same work more slowly, look
    at its host and its GPU's clocks.

Limits
    It takes traces of at least two ranks of the same steps, whose collectives can be
    paired, and clocks that agree: hosts' clocks are put right by the ends of collectives,
    and how well that worked is told. Lateness that the late rank's own work does not
    explain (it left the last collective late) is not reported. Cost is the mean time that
    the other ranks waited.

References
    - https://hta.readthedocs.io/en/latest/source/features/straggler_analysis.html
    - https://docs.pytorch.org/docs/stable/profiler.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.aligned_ranks import AlignedRanks
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, named, part

if TYPE_CHECKING:
    from necropsy.trace.fleet import Fleet
    from necropsy.trace.straggler import Cause, Late


class Thresholds(Struct, frozen=True):
    """`share` of the steps that the others wait: 5 %, as for exposed communication (TraceLens).

    `steps`: part of the steps in which the rank must be the one that is waited for.
    `explained`: part of the waiting that what the rank does more must account for.
    """

    share: float = 0.05
    steps: float = 0.66
    explained: float = 0.5


@rule("DST007", "late-rank", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, ranks: AlignedRanks, t: Thresholds) -> Iterator[Finding]:
    """One finding a rank that is waited for."""
    for fleet in traces.fleets:
        from necropsy.trace.straggler import accused

        for late, cause in accused(fleet, t.share, t.steps, t.explained):
            yield _told(fleet, late, cause)


def _told(fleet: Fleet, late: Late, cause: Cause) -> Finding:
    from necropsy.trace.straggler import DOING

    p = late.profile
    first = cause.places[0] if cause.places else None
    others = "the other rank waits" if len(fleet.profiles) == 2 else "the others wait"
    return about(
        p,
        f"Rank {p.origin.rank} comes last to {part(late.meetings / late.of)} of the collectives and {others} "
        f"{ms(p.per_step(late.waited))} for it in each {p.step_word} ({part(p.share(late.waited))} of the time): "
        f"it {DOING[cause.bucket]}{in_function(first)} {ms(p.per_step(cause.ns))} longer than the others"
        f"{'' if cause.distinct else ', though it does the same'}.",
        Severity.WARNING if cause.distinct else Severity.NOTE,
        shows="start of the same collective on each rank",
        ns=late.waited,
        places=cause.places,
        event=f"straggler@{p.input}",
        facts={
            "steps in which it is waited for": part(late.steps),
            "its extra time": f"{ms(p.per_step(cause.ns))} of {cause.bucket} a {p.step_word}",
            "ranks compared": list(fleet.ranks),
            "ends of collectives agree within": ms(fleet.residual or 0),
        },
        fixes=tuple(_fixes(cause)),
    )


def _fixes(cause: Cause) -> Iterator[Fix]:
    if not cause.distinct:
        yield Fix("Look for other load on this rank's host, and for processes that share its cores (`taskset -p`)")
        return
    where = f"`{named(cause.places[0])}`" if cause.places else "the step"
    if cause.bucket == "data loading":
        yield Fix("Compare this rank's loader, storage and share of the data with the others'", "investigate")
        yield Fix("Give the DataLoader more workers: `num_workers=...`, `persistent_workers=True`", "code")
    elif cause.bucket == "compute":
        yield Fix(f"Give all ranks the same amount of work in {where}, or share out what only this rank does", "code")
        yield Fix("If the work is the same, compare the GPUs' clocks and temperatures (`nvidia-smi -q -d CLOCK`)")
    elif cause.bucket == "saving":
        yield Fix("Save asynchronously: `torch.distributed.checkpoint.async_save`", "code")
    else:
        yield Fix(f"Take out of {where} what only this rank does, or do it every so many steps", "code")
        yield Fix("If all ranks do the same there, look for other load on this rank's host", "investigate")
