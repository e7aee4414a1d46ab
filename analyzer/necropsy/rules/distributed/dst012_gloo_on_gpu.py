"""Gradients of GPUs are exchanged by the CPU

What it means
    The process computes on a GPU, and its collectives run on the CPU (gloo): each gradient
    is copied to the host, summed by its threads over TCP, and copied back.

Why it happens
    `init_process_group("gloo")` stayed from a test on a machine without GPUs, or `nccl`
    was not available and the program fell back.

How to confirm
    The trace has ranges gloo:all_reduce beside kernels, and no kernel named nccl.

How to fix
    `init_process_group("nccl")`, or no backend at all: the default takes NCCL for GPUs.

Limits
    Small messages over gloo (barriers, objects, metrics) are left alone: only steps that
    move a mebibyte or more are told. The cost is the time in which such a collective was
    under way and the device idle.

References
    - https://docs.pytorch.org/docs/stable/distributed.html#which-backend-to-use
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part


class Thresholds(Struct, frozen=True):
    """`bytes` a step that the CPU must exchange in most steps: one mebibyte is no message about the run any more."""

    bytes: int = 1 << 20


@rule("DST012", "gloo-on-gpu", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a process."""
    for p in traces.gpu_profiles:
        from necropsy.trace.parallel import cpu_exchange

        found = cpu_exchange(p, t.bytes)
        if found is None:
            continue
        yield about(
            p,
            f"{found.backend} exchanges {p.per_step(found.bytes) / 1e6:.3g} MB of each {p.step_word} on the CPU"
            f"{in_function(found.place)}, though the process has a GPU, which idles {ms(p.per_step(found.ns))} "
            f"({part(p.share(found.ns))}) meanwhile.",
            Severity.WARNING,
            shows=f"{found.backend}:all_reduce beside kernels",
            ns=found.ns,
            places=[found.place],
            event=f"communication@{p.input}",
            facts={"backend": p.trace.meta.backend or found.backend},
            fixes=(Fix('Use NCCL: `init_process_group("nccl")`, or leave the backend out', "code"),),
        )
