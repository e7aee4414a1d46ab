"""A barrier in every step

What it means
    The program calls `torch.distributed.barrier()` in its steps. Each waits for the slowest
    rank and for the device, so that the next step's kernels are launched into an empty
    queue.

Why it happens
    A barrier stayed from debugging, or guards something that needs none: gradients and
    collectives keep ranks in step by themselves.

How to confirm
    In the trace, c10d::barrier stands in every step, followed by idle time of the device.

How to fix
    Remove it from the step. Where one rank must go first (a download, a checkpoint), put
    the barrier around that only.

Limits
    The cost is the time in the calls during which the device computed nothing; part of it
    would be spent waiting elsewhere if ranks differ.

References
    - https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.barrier
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part


class Thresholds(Struct, frozen=True):
    """`steps`: part of the judged steps with a barrier; `share`: of their time, below which it is a note."""

    steps: float = 0.9
    share: float = 0.01


@rule("DST022", "barrier-every-step", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a process."""
    for p in traces.profiles:
        from necropsy.trace.parallel import barriers

        if p.steps.how == "window" or p.graphs or len(p.steps) < 2:
            continue
        found = barriers(p)
        if found is None or found.steps < t.steps:
            continue
        does = "computes nothing" if not p.cpu_only else "waits for the other ranks"
        yield about(
            p,
            f"Every {p.step_word} calls barrier(){in_function(found.place)}: {ms(p.per_step(found.ns))} of each "
            f"({part(p.share(found.ns))}) in which {'the GPU' if not p.cpu_only else 'it'} {does}.",
            Severity.WARNING if p.share(found.ns) >= t.share else Severity.NOTE,
            shows="c10d::barrier",
            ns=found.ns,
            places=[found.place],
            event=f"barrier@{p.input}",
            facts={"barriers in the judged steps": found.count},
            fixes=(
                Fix("Remove the barrier: collectives and DDP keep the ranks in step", "code"),
                Fix("Keep it only around what one rank must do first, such as a download", "code"),
            ),
        )
