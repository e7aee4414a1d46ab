"""Collectives run when computing could hide them

What it means
    Collectives and computing take turns: most of the collectives' time passes with an
    empty compute stream, and kernels that could have run beside them run before or after.

Why it happens
    Gradients are exchanged after the backward pass instead of during it (a loop of
    `all_reduce` calls), each call is waited for at once, one bucket holds all gradients,
    `find_unused_parameters` or a static order holds buckets back, or FSDP does not fetch
    the next layer ahead.

How to confirm
    In the trace, the communication stream is busy where the compute stream is empty, one
    after the other.

How to fix
    Let `DistributedDataParallel` exchange gradients during backward; start collectives with
    `async_op=True` and wait where the result is needed; try a smaller `bucket_cap_mb`;
    with FSDP, prefetch (`backward_prefetch`, `set_modules_to_backward_prefetch`).

Limits
    A step whose exposed time is one collective, or which has little computing, is DST001's.
    What could be hidden is an estimate: the smaller of the exposed communication and the
    computing beside which none ran; dependencies may forbid some of it (tensor parallelism
    computes with what it has just exchanged). Waiting for a late rank (DST007) is not counted.

References
    - https://docs.pytorch.org/docs/stable/notes/ddp.html
    - https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part, places_of

if TYPE_CHECKING:
    from necropsy.trace.overlap import Communication


class Thresholds(Struct, frozen=True):
    """`hidden`: part of the collectives' time beside computing, below 70 % poor (TraceLens), below `none` almost none.

    (30 % is nsys-ai's.) `exposed`: share of the steps from which it matters; `computing`: times the
    exposed communication that there must be to hide it (2: nsys-ai's healthy ratio).
    """

    hidden: float = 0.7
    none: float = 0.3
    exposed: float = 0.05
    computing: float = 2.0
    steps: float = 0.5


@rule("DST002", "poor-overlap", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a job, about the rank that it costs least."""
    judged = [p for p in traces.gpu_profiles if p.replayed < 0.2]
    if not any(len(p.rank.communicating) for p in judged):
        return
    from necropsy.trace.overlap import all_communication, least
    from necropsy.trace.parallel import exchanges, replicas

    for ranks in all_communication(judged, traces.fleets):
        c = least(ranks)
        # Exchanges that need not be, and DataParallel's, have rules of their own.
        if _poor(c, t) and exchanges(c.profile) is None and replicas(c.profile) is None:
            yield _told(c, ranks, t)


def _poor(c: Communication, t: Thresholds) -> bool:
    matters = c.profile.share(c.own) >= t.exposed and c.steps >= t.steps
    return (
        matters and c.several and c.computing >= t.computing * c.own and 1 - c.own / max(1, c.total - c.late) < t.hidden
    )


def _told(c: Communication, ranks: list[Communication], t: Thresholds) -> Finding:
    from necropsy.trace.overlap import issuers, kinds_of

    p = c.profile
    sites = issuers(p)
    first = sites[0].place if sites else None
    hidden = "almost none" if c.hidden < t.none else "little"
    return about(
        p,
        f"Computing hides {hidden} of the collectives started{in_function(first)} ({part(c.hidden)} of their time): "
        f"{ms(p.per_step(c.own))} of each {p.step_word} ({part(p.share(c.own))}) pass with nothing else on the GPU.",
        Severity.WARNING,
        shows="nccl kernels and other kernels by turns",
        ns=c.own,
        places=places_of(sites),
        event=f"communication@{p.input}",
        ranks=tuple(sorted({r for x in ranks for r in x.profile.ranks})),
        facts={
            "collectives in all": f"{ms(p.per_step(c.total))} a {p.step_word}",
            "gain if hidden (estimated)": f"up to {ms(p.per_step(c.hideable))} a {p.step_word}",
            "largest": kinds_of(p),
        },
        fixes=(
            Fix(
                "Exchange gradients during backward: `DistributedDataParallel` instead of a loop of `all_reduce`",
                "code",
            ),
            Fix("Start collectives with `async_op=True` and wait only where the result is needed", "code"),
            Fix("With DDP try a smaller `bucket_cap_mb`; with FSDP prefetch the next layer", "code"),
        ),
    )
