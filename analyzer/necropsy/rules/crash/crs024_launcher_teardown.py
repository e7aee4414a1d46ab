"""A launcher stopped the job because one of its processes had ended

What it means
    When one process of a job ends, its launcher (torchrun, srun, mpirun, DeepSpeed, Lightning,
    accelerate) stops all others. What it prints then is the end of the story, not its cause.

Why it happens
    A rank failed, was killed or left early.

How to confirm
    The first failure of a rank in the log; torchrun's "Root Cause" names the one that the
    agent of a node noticed first, which is not always the one that failed first.

How to fix
    See the finding of the rank that failed.

Limits
    If nothing else is in the log, the cause is in the output of the ranks: CRS014 says what
    is known of their ends.

References
    - https://pytorch.org/docs/stable/elastic/errors.html
    - https://slurm.schedmd.com/srun.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.messages.elastic_failure import ElasticFailure

from necropsy.claim import from_exception
from necropsy.conditions import JOB_STOPPED, PROCESS_DIED
from necropsy.evidence.elastic_failures import ElasticFailures
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.stopped_workers import StoppedWorkers
from necropsy.finding import Fact, Finding, Role, Severity
from necropsy.provenance.exits import LAUNCHERS
from necropsy.rule import rule

_OWN: Final = frozenset({"ActorDiedError", "RayActorError", "WorkerCrashedError"})  # these say why, and stay exceptions


def _ended(worker: ElasticFailure) -> str:
    how = worker.signal or f"exit code {worker.code}"
    node = f" on {worker.host}" if worker.host and worker.host != "localhost" else ""
    return f"rank {worker.rank}{node}: {how}"


def _finding(row: ExceptionRow, workers: Sequence[ElasticFailure], stopped: int) -> Finding:
    first = next((w for w in workers if w.first), None)
    facts: dict[str, Fact] = {"raised": row.name}
    if workers:
        facts["ends"] = [_ended(w) for w in workers][:16]
    if stopped:
        facts["stopped by the launcher"] = stopped
    noticed = f"; it noticed rank {first.rank} first" if first is not None and first.rank is not None else ""
    why = "because one of its processes had ended" if row.name != "SignalException" else "because it was told to"
    return from_exception(
        row,
        f"The launcher stopped the job {why}{noticed}.",
        severity=Severity.NOTE,
        role=Role.SYMPTOM,
        code=(),
        facts=facts,
        leaves=frozenset(),
        shows=frozenset({PROCESS_DIED, JOB_STOPPED}),
    )


@rule("CRS024", "launcher-teardown", Severity.NOTE, aliases=("X24", "teardown", "child-failed-error"))
def check(exceptions: Exceptions, workers: ElasticFailures, stopped: StoppedWorkers) -> Iterator[Finding]:
    """One note a launcher's exception; everything else that launchers print then is no finding."""
    for row in exceptions:
        # A CalledProcessError in the user's own code is the program's: it runs other programs.
        if row.name not in LAUNCHERS - _OWN or (row.name == "CalledProcessError" and row.places):
            continue
        ends = [w for w in workers if w.attempt == row.attempt]
        count = sum(1 for s in stopped if s.attempt == row.attempt and s.pid is not None)
        yield _finding(row, ends, count)
