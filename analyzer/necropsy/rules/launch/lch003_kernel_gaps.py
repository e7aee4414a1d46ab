"""Short gaps between kernels add up

What it means
    The host had launched the next kernel in time, and still the GPU stood idle for some
    microseconds between one kernel and the next. It is what the device needs to begin a
    kernel; with very many kernels it adds up.

Why it happens
    Thousands of kernels a step, most of them short.

How to confirm
    Divide the time of the gaps by the number of kernels: one to a few microseconds each.

How to fix
    Fewer kernels: `torch.compile`, fused operators, a fused optimizer. CUDA graphs make the
    gaps shorter, too.

Limits
    Gaps of 30 us and more, and those in which the host launched late, are not counted here.

References
    - https://github.com/facebookresearch/HolisticTraceAnalysis
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, ms, part


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time in gaps below 30 us (HTA's "kernel wait"); the share is our own."""

    share: float = 0.1


@rule("LCH003", "kernel-gaps", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a trace whose kernels leave gaps in most steps."""
    for p in traces.gpu_profiles:
        from necropsy.trace.idle import in_most_steps, judgeable

        gaps = p.partition.total("kernel gaps")
        if p.share(gaps) < t.share or not judgeable(p):
            continue
        if not in_most_steps(p, p.steps.start, p.partition.buckets["kernel gaps"], t.share):
            continue
        kernels = int(p.in_steps(p.rank.kernels["start"]).sum())
        each = ms(gaps / max(1, kernels))
        yield about(
            p,
            f"{p.per_step(kernels):,.0f} kernels a {p.step_word} leave gaps of {each} on average, though they were "
            f"launched in time: {part(p.share(gaps))} of the time is lost to starting kernels.",
            Severity.WARNING,
            shows="gaps below 30 us between kernels of one stream",
            ns=gaps,
            event=f"kernel gaps@{p.input}",
            facts={
                f"kernels a {p.step_word}": round(p.per_step(kernels)),
                f"gaps (ms a {p.step_word})": round(p.per_step(gaps) / 1e6, 2),
            },
            fixes=(
                Fix("Launch fewer kernels: `torch.compile`, fused operators, `fused=True` for the optimizer", "code"),
                Fix("Replay CUDA graphs, which start kernels with shorter gaps", "code"),
            ),
        )
