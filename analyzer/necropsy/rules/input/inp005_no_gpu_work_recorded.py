"""The trace holds calls that launch GPU work, but no GPU work

What it means
    The profiler saw the program launch kernels and recorded none of them. What the
    device did, and how long it was idle, cannot be told from this trace.

Why it happens
    `ProfilerActivity.CUDA` was not asked for; CUPTI could not start (another profiler was
    attached, or counters are reserved for administrators); the process was ended before
    the trace was flushed; or the container lacks CUPTI.

How to confirm
    The job's log says `CUPTI_ERROR_...` or `Kineto ... failed to initialize` when the
    profiler starts.

How to fix
    Profile with `activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`, with no other
    profiler attached. In containers, allow access to counters or give the process
    `CAP_SYS_ADMIN` (INP006).

Limits
    A trace of a program that uses no GPU has no such calls and is judged as one of the CPU.

References
    - https://docs.pytorch.org/docs/stable/profiler.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about

_LAUNCHES = (
    "cudaLaunchKernel",
    "cuLaunchKernel",
    "hipLaunchKernel",
    "hipExtModuleLaunchKernel",
    "hipModuleLaunchKernel",
)


@rule("INP005", "no-gpu-work-recorded", Severity.WARNING)
def check(traces: Traces) -> Iterator[Finding]:
    """Launches without any kernel, copy or memset."""
    for p in traces.profiles:
        if not p.cpu_only:
            continue
        launches = int(p.rank.where(p.rank.calls, _LAUNCHES).sum())
        if launches:
            yield about(
                p,
                f"The trace shows {launches:,} kernel launches and no kernel: the device's side was not recorded, so "
                "that idle time and kernels cannot be judged.",
                Severity.WARNING,
                shows="launches of kernels, no event of category kernel",
                fixes=(
                    Fix("Profile with `activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`", "code"),
                    Fix("See whether the log says that CUPTI could not start", "investigate"),
                ),
            )
