"""More DataLoader workers than CPUs

What it means
    torch warns that the DataLoader starts more worker processes than the process may use
    CPUs. They wait for each other, and loading can become slower, even freeze.

Why it happens
    `num_workers` copied from another machine; a scheduler or container that grants few CPUs
    (the number counts what the process may use, not what the machine has).

How to confirm
    `len(os.sched_getaffinity(0))` in the job; Slurm's --cpus-per-task.

How to fix
    Lower num_workers to the CPUs per process, or ask the scheduler for more.

Limits
    torch counts one DataLoader of one process; several ranks on a node share its CPUs.

References
    - https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.claim import from_record
from necropsy.evidence.worker_counts import WorkerCounts
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule


@rule("DAT003", "too-many-workers", Severity.WARNING)
def check(counts: WorkerCounts) -> Iterator[Finding]:
    """One finding a warning."""
    for c in counts:
        yield from_record(
            c,
            f"The DataLoader starts {c.asked} workers on {c.suggested} CPUs: they compete, and loading slows down.",
            Severity.WARNING,
            facts={"workers": c.asked, "CPUs": c.suggested},
            fixes=(
                Fix(
                    (
                        f"Set num_workers to at most {c.suggested}, "
                        "or ask the scheduler for more CPUs (Slurm --cpus-per-task)"
                    ),
                    "config",
                ),
            ),
        )
