"""Collectives take much of each step while nothing computes

What it means
    In this part of the steps a collective (all-reduce, all-gather, reduce-scatter, ...)
    was the only thing that the device ran, and held up what came next. It is the part of
    communication that costs time; what computing hides costs none. Of several ranks the
    one with the least is told, since what others have more of is waiting.

Why it happens
    Much data is exchanged for little computing: large gradients with a small batch, dense
    gradients of large embeddings, a sharding that gathers small layers, a slow link.

How to confirm
    On the communication stream of the trace, kernels named nccl... run while the compute
    streams are empty.

How to fix
    Exchange less often (gradient accumulation under `no_sync()`), less (`bf16` gradients
    with a communication hook, sparse embedding gradients), or let more work hide it (a
    larger batch per rank).

Limits
    A collective lasts until the slowest rank has come: a trace of one rank cannot tell
    waiting from transferring. Where traces of several ranks show a rank that is waited
    for, that part is reported as DST007 and not counted here. Traces in which most work
    is replayed CUDA graphs are not judged.

References
    - https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html
    - https://docs.pytorch.org/docs/stable/notes/ddp.html
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
    from necropsy.trace.overlap import Communication, Tensor


class Thresholds(Struct, frozen=True):
    """`exposed`: share of the steps, 5 % as in TraceLens. `steps`: part of them in which it is above 1 %.

    `much`: share that all communication takes from which its amount is said to be large (10 %, Kineto's
    TensorBoard plugin, removed in 2026).
    """

    exposed: float = 0.05
    steps: float = 0.5
    much: float = 0.10


@rule("DST001", "communication-share", Severity.WARNING, settings=Thresholds, general=True)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a job, about the rank that it costs least."""
    judged = [p for p in traces.gpu_profiles if p.replayed < 0.2]
    if not any(len(p.rank.communicating) for p in judged):
        return
    from necropsy.trace.overlap import all_communication, least

    for ranks in all_communication(judged, traces.fleets):
        c = least(ranks)
        if c.profile.share(c.own) >= t.exposed and c.steps >= t.steps:
            yield _told(c, ranks, t)


def _told(c: Communication, ranks: list[Communication], t: Thresholds) -> Finding:
    from necropsy.trace.overlap import issuers, kinds_of, large_tensor

    p = c.profile
    sites = issuers(p)
    first = sites[0].place if sites else None
    peers = "the other ranks' traces" if len(ranks) == 1 and (p.trace.meta.world or 2) > 1 else ""
    tensor = large_tensor(p) if not c.several else None
    gradient = f", mostly the gradient of one tensor of {tensor.shape}" if tensor is not None else ""
    much = "communication" if p.share(c.total) >= t.much else "collectives"
    return about(
        p,
        f"Each {p.step_word} spends {ms(p.per_step(c.own))} ({part(p.share(c.own))} of the time) in {much} started"
        f"{in_function(first)}{gradient}, while the GPU computes nothing.",
        Severity.WARNING,
        shows="nccl kernels while no other kernel runs",
        ns=c.own,
        places=[tensor.site.place] if tensor is not None else places_of(sites),
        event=f"communication@{p.input}",
        ranks=tuple(sorted({r for x in ranks for r in x.profile.ranks})),
        facts={
            "collectives in all": f"{ms(p.per_step(c.total))} a {p.step_word} ({part(p.share(c.total))})",
            "hidden by computing": part(c.hidden),
            "largest": kinds_of(p),
            **(
                {"tensor": f"{tensor.shape}, used by {tensor.operator}{in_function(tensor.site.place)}"}
                if tensor
                else {}
            ),
            **({"waiting for late ranks (DST007)": f"{ms(p.per_step(c.late))} a {p.step_word}"} if c.late else {}),
            **({"waiting or transferring": f"not told by one rank; see {peers}"} if peers else {}),
        },
        fixes=(
            *_sparse(tensor),
            Fix("Accumulate gradients over several batches under `model.no_sync()`", "code"),
            Fix("Exchange fewer bytes: `bf16_compress_hook`, sparse gradients of large embeddings", "code"),
            Fix("Give each rank a larger batch, so that computing hides the transfer", "code"),
        ),
    )


def _sparse(tensor: Tensor | None) -> Iterator[Fix]:
    if tensor is not None and tensor.operator == "aten::embedding":
        yield Fix(
            "Exchange only the rows that were used: `nn.Embedding(..., sparse=True)` with `SparseAdam` or `SGD`", "code"
        )
