"""The profiler recorded no operator and no GPU work

What it means
    The trace is whole and holds none of what a step does: at most Python frames of the profiler
    itself. Nothing can be said about the program from it.

Why it happens
    `schedule(...)` without `repeat=1` begins a new cycle behind the recorded steps, and an export
    after the loop writes that one. Or the loop had fewer steps than `wait + warmup + active`, or
    `prof.step()` was never called, so that the profiler still waited.

How to confirm
    The trace is a few kilobytes long, and has no event of category `cpu_op` or `kernel`.

How to fix
    Export in `on_trace_ready`, which is called when the recorded steps are over, or add
    `repeat=1`; call `prof.step()` at the end of each step.

Limits
    Traces that are cut or lost events are left to INP002. Only traces of torch's profiler are
    meant, which say their `schemaVersion`.

References
    - https://docs.pytorch.org/docs/stable/profiler.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about


@rule("INP013", "empty-trace", Severity.WARNING)
def check(traces: Traces) -> Iterator[Finding]:
    """Whole traces without operators, calls of the runtime and work of a device."""
    for p in traces.profiles:
        lost = p.trace.losses
        r = p.rank
        work = (r.ops, r.calls, r.kernels, r.copies, r.memsets)
        damaged = lost.cut or lost.dropped or lost.times or lost.repaired  # INP002 and INP003 say what to make of it
        if p.trace.meta.schema is None or damaged or any(len(w) for w in work):
            continue
        yield about(
            p,
            "The trace holds no operator and no GPU work: nothing of a step was recorded, so that nothing can be "
            "judged.",
            Severity.WARNING,
            shows="no event of category cpu_op or kernel",
            facts={"events": p.trace.events},
            fixes=(
                Fix("Export in `on_trace_ready`, or add `repeat=1` to `schedule(...)`: a new cycle has begun", "code"),
                Fix("Call `prof.step()` in each step, `wait + warmup + active` times at least", "code"),
            ),
        )
