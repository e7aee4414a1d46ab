"""One stage of the pipeline computes longer than the others

What it means
    Ranks pass activations to each other, and one of them computes longer in each step. A
    pipeline runs at the pace of its slowest stage; the others wait in receives.

Why it happens
    Layers are split by number and not by cost: embedding, head and loss stand on the first
    and the last stage.

How to confirm
    Compare the stages' computing a step, as given here.

How to fix
    Move layers from the slowest stage to others. `torch.distributed.pipelining` (the
    pipeline API of `torch.distributed.pipeline.sync` was removed) splits a model at named
    modules and offers interleaved schedules, with more and smaller stages a rank.

Limits
    Ranks are taken for stages if each passes at least two messages a step; expert and
    context parallel jobs do, too, and are uneven for other reasons.

References
    - https://docs.pytorch.org/docs/stable/distributed.pipelining.html
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.aligned_ranks import AlignedRanks
from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, ms, part


class Thresholds(Struct, frozen=True):
    """`ratio` of the slowest stage to the mean of the others: 1.5, below the 2 at which nsys-ai calls an outlier.

    `share`: of a step, by which it computes longer.
    """

    ratio: float = 1.5
    share: float = 0.05


@rule("DST013", "uneven-stages", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, ranks: AlignedRanks, t: Thresholds) -> Iterator[Finding]:
    """One finding a job."""
    for fleet in traces.fleets:
        from necropsy.trace.parallel import stages

        s = stages(fleet)
        if s is None:
            continue
        more = s.computing[s.slowest] - s.others
        p = next(p for p in fleet.profiles if p.origin.rank == s.slowest)
        if s.computing[s.slowest] < t.ratio * s.others or more < t.share * fleet.step:
            continue
        yield about(
            p,
            f"The stage of rank {s.slowest} computes {ms(s.computing[s.slowest])} of each {p.step_word}, the other "
            f"{'stage' if len(s.computing) == 2 else 'stages'} {ms(s.others)}: the pipeline waits "
            f"{ms(more)} for it ({part(more / fleet.step)}).",
            Severity.WARNING,
            shows="kernels of each rank between sends and receives",
            ns=int(more * len(p.steps)),
            basis="estimated",
            confidence=Confidence.LIKELY,
            event=f"stages@{p.input}",
            facts={
                "computing a step": [f"rank {r}: {ms(ns)}" for r, ns in s.computing.items()],
                "messages a step and rank": round(s.messages, 1),
            },
            fixes=(
                Fix("Move layers from this stage to the others (`torch.distributed.pipelining`: split points)", "code"),
                Fix("Try an interleaved schedule: `ScheduleInterleaved1F1B`, several smaller stages a rank", "code"),
            ),
        )
