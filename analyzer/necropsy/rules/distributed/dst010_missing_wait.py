"""Collectives were started and never waited for

What it means
    An asynchronous collective returns before its result is there. Results that nobody waited for
    may have been read too early, and their communication was not ordered before the end of the
    process.

Why it happens
    `async_op=True` (or a functional collective) whose work handle is dropped; an early return
    between start and wait.

How to confirm
    Search for `async_op=True` and functional collectives; each needs a `wait()` or
    `wait_tensor()` on every path.

How to fix
    Keep the handle and wait before the result is used, or make the call synchronous.

Limits
    torch counts at the end of the process and does not name the calls. Of compiled graphs the
    structured log (TORCH_TRACE) tells which starts more than it waits for: CMP019. A process that crashed leaves
    unwaited calls by itself, so that after a failure this is a note.

References
    - https://docs.pytorch.org/docs/stable/distributed.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.claim import from_record
from necropsy.conditions import JOB_STOPPED, PEER_ABSENT, PROCESS_DIED
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.unwaited_collectives import UnwaitedCollectives
from necropsy.finding import Confidence, Finding, Fix, Role, Severity
from necropsy.rule import rule


@rule("DST010", "missing-wait", Severity.WARNING)
def check(unwaited: UnwaitedCollectives, exceptions: Exceptions) -> Iterator[Finding]:
    """One finding a process that ended with unwaited collectives."""
    crashed = any(not e.handled for e in exceptions)
    for u in unwaited:
        yield from_record(
            u,
            (
                f"The process ended with {u.count} collectives that nobody waited for: "
                "their results may have been read too early."
            ),
            Severity.NOTE if crashed else Severity.WARNING,
            role=Role.SYMPTOM if crashed else Role.ROOT,
            confidence=Confidence.LIKELY,
            facts={"unwaited": u.count},
            fixes=(
                Fix(
                    "Keep the work handle of async_op=True and call wait() before the result is used, on every path",
                    "code",
                ),
            ),
            shows=frozenset({PROCESS_DIED, PEER_ABSENT, JOB_STOPPED}),
        )
