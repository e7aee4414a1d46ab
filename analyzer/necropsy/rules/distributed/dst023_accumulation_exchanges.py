"""Gradients are exchanged for each micro-batch, though several make a step

What it means
    Each step runs DistributedDataParallel's forward several times before the optimizer,
    and each backward pass exchanges all gradients. Only the last exchange of a step is
    needed: DDP adds up local gradients by itself.

Why it happens
    Gradient accumulation without `model.no_sync()`.

How to confirm
    In the trace, each DistributedDataParallel.forward of a step is followed by the same
    all-reduces.

How to fix
    Run all micro-batches but the last (forward and backward) under `with model.no_sync():`;
    with FSDP2 `model.set_requires_gradient_sync(False)`.

Limits
    Several forward passes whose losses are added and go backward once exchange once, and
    are not reported. The cost is the part of the exposed communication that the unneeded
    exchanges make up (an estimate).

References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    - https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part


class Thresholds(Struct, frozen=True):
    """`share` of the steps that all collectives take from which unneeded ones matter: 10 %, as for DST001."""

    share: float = 0.10


@rule("DST023", "accumulation-exchanges", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a process."""
    for p in traces.gpu_profiles:
        if p.steps.how == "window" or len(p.steps) < 2 or p.graphs or not len(p.rank.communicating):
            continue
        from necropsy.trace.overlap import communication_of
        from necropsy.trace.parallel import exchanges

        found = exchanges(p)
        if found is None:
            continue
        c = communication_of(p)
        unneeded = (found.passes - 1) / found.passes
        yield about(
            p,
            f"Each {p.step_word} exchanges its gradients {found.passes} times{in_function(found.place)}, once for each "
            f"micro-batch; {found.passes - 1} of these exchanges are unneeded "
            f"({ms(p.per_step(c.total * unneeded))} of collectives a {p.step_word}).",
            Severity.WARNING if p.share(c.total) >= t.share else Severity.NOTE,
            shows="DistributedDataParallel.forward and the same all-reduces several times a step",
            ns=int(c.own * unneeded),
            basis="estimated",
            places=[found.place],
            event=f"communication@{p.input}",
            facts={
                "all-reduces a step": round(found.exchanges, 1),
                "collectives in all": f"{ms(p.per_step(c.total))} a {p.step_word} ({part(p.share(c.total))})",
            },
            fixes=(Fix("Run all micro-batches but the last under `with model.no_sync():`", "code"),),
        )
