"""The GPU's memory is almost full

What it means
    At its peak this process had more than 90 % of the GPU's memory in use (allocated to
    tensors, not merely cached). A slightly larger batch, a longer sequence or another
    process on the GPU ends the run; and before that the allocator frees its cache to serve
    requests, which stops the GPU.

Why it happens
    Batch or sequence length were chosen to fit exactly; states of the optimizer, gradients
    and activations of the longest batch add up.

How to confirm
    `torch.cuda.max_memory_allocated()` against `torch.cuda.get_device_properties(0).total_memory`.

How to fix
    Activation checkpointing, a smaller micro-batch with accumulation, lower precision, a
    sharded optimizer.

Limits
    Needs `profile_memory=True`. Only what the profiled steps held is known. Serving engines
    reserve most of the GPU on purpose: without a backward pass it is a note.

References
    - https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function
from necropsy.units import human_bytes, percent


class Thresholds(Struct, frozen=True):
    """`share` of the GPU's memory in use at the peak (90 %: Kineto's TensorBoard plugin, TraceML)."""

    share: float = 0.9


@rule("OOM001", "near-capacity", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a GPU."""
    for p in traces.profiles:
        from necropsy.trace.memory import curves, peak_site, trains

        for curve in curves(p):
            peak = int(curve.allocated[curve.peak])
            if not curve.capacity or peak < t.share * curve.capacity:
                continue
            site = peak_site(p, curve)
            place = site.place if site else None
            training = trains(p)
            then = "ends the run" if training else "may end the run, unless an engine reserved its cache on purpose"
            yield about(
                p,
                f"The GPU's memory is {percent(peak / curve.capacity)} full at the peak{in_function(place)} "
                f"({human_bytes(peak)} of {human_bytes(curve.capacity)} in use): a slightly larger batch or sequence "
                f"{then}.",
                Severity.WARNING if training else Severity.NOTE,
                shows="[memory] events, Total Allocated",
                places=[place],
                facts={
                    "in use at the peak": human_bytes(peak),
                    "reserved at the peak": human_bytes(int(curve.reserved[curve.peak])),
                    "capacity": human_bytes(curve.capacity),
                },
                fixes=(
                    Fix("Lower the peak: activation checkpointing, a smaller micro-batch with accumulation", "config"),
                    Fix("See what holds the memory at the peak", command="torch.cuda.memory._record_memory_history()"),
                ),
            )
