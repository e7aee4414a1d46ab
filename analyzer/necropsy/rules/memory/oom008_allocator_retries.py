"""The allocator had to retry: device memory is at its limit

What it means
    cudaMalloc was refused, and torch's allocator freed its cache and tried again. Each such
    round stops the GPU; and the job is one larger batch away from an out-of-memory error.

Why it happens
    The peak of a step is close to the capacity; shapes that change every step leave cached
    blocks that fit nothing.

How to confirm
    `torch.cuda.memory_stats()["num_alloc_retries"]` rises during training, not only in the
    first step.

How to fix
    Lower the peak (smaller micro-batch, checkpointing), keep shapes stable, or let segments
    grow (expandable_segments).

Limits
    A count alone does not say when the retries happened; those of the first step matter
    little.

References
    - https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_stats.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.claim import from_record, logged_place
from necropsy.conditions import DEVICE_FULL
from necropsy.evidence.allocator_retries import AllocatorRetries
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule


@rule("OOM008", "allocator-retries", Severity.WARNING)
def check(retries: AllocatorRetries) -> Iterator[Finding]:
    """One finding for the highest count of each report and process."""
    best: dict[tuple[str, int | None, int], int] = {}
    for i, r in enumerate(retries.rows):
        key = (r.source, r.origin.rank, r.attempt)
        if key not in best or retries.rows[best[key]].retries < r.retries:
            best[key] = i
    for index in sorted(best.values()):
        r = retries.rows[index]
        what = "flushes of the allocator's cache" if r.source == "DeepSpeed" else "retried allocations"
        yield from_record(
            r,
            f"{r.retries} {what} ({r.source}): device memory is at its limit, and each one stops the GPU.",
            Severity.WARNING,
            code=tuple(p for p in logged_place(r.origin) if "site-packages" not in p.file and r.source != "DeepSpeed"),
            facts={"retries": r.retries, "reported by": r.source},
            fixes=(
                Fix("Lower the peak of a step: smaller micro-batch, activation checkpointing", "config"),
                Fix(
                    "If shapes change every step, let segments grow",
                    "env",
                    "safe",
                    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                ),
            ),
            leaves=frozenset({DEVICE_FULL}),
        )
