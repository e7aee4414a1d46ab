"""Work was launched, the GPU was idle, and still it did not begin

What it means
    In most steps a kernel or copy had been launched more than 1.5 ms before it began, and the GPU
    ran nothing else meanwhile. It waited for something that the trace does not show.

Why it happens
    An event of another stream or process, a peer's data, a host function in the stream, memory that is paged
    or migrated, another process on the GPU, or the GPU leaving a power state.

How to confirm
    Record with Nsight Systems, which shows other processes, host functions and page faults.

How to fix
    It depends on what is waited for: look for `wait_event`, `wait_stream`,
    `cudaLaunchHostFunc` and managed memory around the kernel.

Limits
    Collectives that wait for other ranks run meanwhile and are not meant.

References
    - https://github.com/facebookresearch/HolisticTraceAnalysis
    - https://docs.nvidia.com/nsight-systems/
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, ms, part


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time in such waits (each above HTA's 1.5 ms); the share is our own."""

    share: float = 0.05


@rule("LCH009", "unknown-dependency", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a trace whose launched work waits in most steps."""
    for p in traces.gpu_profiles:
        from necropsy.trace.idle import gaps_of, in_most_steps, judgeable
        from necropsy.trace.late import delays

        if len(p.steps) < 2 or not judgeable(p, kernels=2 * len(p.steps)):
            continue
        _, waits = delays(p)
        g = gaps_of(p)
        if p.share(waits.total) < t.share or not in_most_steps(p, g.start[waits.rows], waits.ns, t.share):
            continue
        each = ms(waits.total / len(waits.rows))
        yield about(
            p,
            f"{p.per_step(len(waits.rows)):.3g} times a {p.step_word} work that was launched does not begin for {each} "
            f"on average while the GPU is idle ({part(p.share(waits.total))} of the time): it waits for something that "
            "the trace does not show.",
            Severity.WARNING,
            confidence=Confidence.LIKELY,
            shows="launched work on an idle GPU",
            ns=waits.total,
            claims=frozenset({f"idle@{p.input}"}),
            facts={f"idle (ms a {p.step_word})": round(p.per_step(waits.total) / 1e6, 2)},
            fixes=(
                Fix("Look for `wait_event`, `wait_stream`, host functions or managed memory around it", "investigate"),
                Fix(
                    "Record the same steps with Nsight Systems, which shows other processes and page faults",
                    "investigate",
                ),
            ),
        )
