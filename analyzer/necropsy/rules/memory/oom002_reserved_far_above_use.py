"""Much more GPU memory is reserved than is ever in use

What it means
    torch's allocator holds at least twice what the tensors of the profiled steps need, and
    a large part of the GPU. The rest is cache that no request of these steps fits, or that
    an earlier phase left behind; other processes cannot have it, and a large tensor may
    fail although enough is free in pieces.

Why it happens
    Shapes that change from step to step fragment the cache; a phase before (evaluation,
    loading a checkpoint, a first oversized batch) needed more than the steps do.

How to confirm
    `torch.cuda.memory_reserved()` against `max_memory_allocated()`;
    `torch.cuda.memory_summary()` shows inactive split blocks.

How to fix
    Let segments grow (`expandable_segments:True`), keep shapes to a few sizes, or call
    `torch.cuda.empty_cache()` once, between the phases.

Limits
    Needs `profile_memory=True`. A cache alone costs nothing: it is a note, and a warning
    where the GPU is nearly full. Reserving on purpose (serving engines) looks the same.

References
    - https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about
from necropsy.units import human_bytes, percent


class Thresholds(Struct, frozen=True):
    """`ratio` of reserved to used memory and `device`, the part of it reserved (TraceML: 2 and 30 %).

    `unused` part of what is reserved (35 %: the founding article); from `full` of the device
    reserved it is a warning.
    """

    ratio: float = 2.0
    device: float = 0.3
    unused: float = 0.35
    full: float = 0.85


@rule("OOM002", "reserved-far-above-use", Severity.NOTE, settings=Thresholds, aliases=("memory-fragmentation",))
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a GPU whose cache is far larger than its use."""
    for p in traces.profiles:
        from necropsy.trace.memory import curves

        for curve in curves(p):
            used, reserved = int(curve.allocated[curve.peak]), int(curve.reserved[curve.peak])
            held = reserved / curve.capacity if curve.capacity else 0.0
            far = reserved >= t.ratio * used or (held >= t.full and reserved - used >= t.unused * reserved)
            if held < t.device or not far:
                continue
            yield about(
                p,
                f"{human_bytes(reserved)} of the GPU's memory ({percent(held)}) are reserved where the steps use "
                f"{human_bytes(used)} at most: {percent((reserved - used) / reserved)} of it is cache that nothing in "
                "these steps fits or needs.",
                Severity.WARNING if held >= t.full else Severity.NOTE,
                shows="[memory] events, Total Reserved and Total Allocated",
                facts={"unused part of what is reserved": percent((reserved - used) / reserved)},
                fixes=(
                    Fix("Let segments grow", "env", "safe", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
                    Fix("If an earlier phase left it behind, call `torch.cuda.empty_cache()` once after it", "code"),
                ),
            )
