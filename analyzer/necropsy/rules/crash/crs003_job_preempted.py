"""The machine was taken away: preemption, eviction, node failure

What it means
    The job did nothing wrong: its node failed or was shut down, or a scheduler or cloud gave
    the machine to somebody else. What its processes printed afterwards is a consequence.

Why it happens
    A job of higher priority, a spot machine reclaimed, a drained or crashed node, a node short
    of memory or disk that evicts its pods.

How to confirm
    `sacct -j JOB -o State,Reason,NodeList`, slurmctld's log, `kubectl describe pod` and
    `kubectl get events`, the cloud's audit log.

How to fix
    Save checkpoints regularly and on SIGTERM, let the scheduler requeue the job
    (`--requeue`) or the launcher restart it (`torchrun --max-restarts`), exclude a bad node.

Limits
    A node that fails because of its GPU is told by CRS001 if the kernel's log is among the
    inputs. Ray reports a lost node also where only its own processes were killed.

References
    - https://slurm.schedmd.com/preempt.html
    - https://kubernetes.io/docs/concepts/workloads/pods/disruptions/
    - https://pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from necropsy.claim import event_of, from_exception, from_record
from necropsy.conditions import JOB_STOPPED, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.job_stops import JobStops
from necropsy.evidence.worker_groups import WorkerGroups
from necropsy.finding import Finding, Fix, Severity
from necropsy.provenance.stops import Stop, named, stops
from necropsy.rule import rule

KINDS: Final = ("node-failure", "node-shutdown", "preempted", "evicted", "requeued")
_SAYS: Final = {
    "node-failure": "{job} lost a node, which failed",
    "node-shutdown": "{job} ended because its node was shut down",
    "preempted": "{job} was preempted: its machine was given to somebody else",
    "evicted": "{job} was evicted: the node was short of {resource}",
    "requeued": "{job} was stopped to be queued again",
}
_CHECKPOINT: Final = Fix("Save a checkpoint regularly, and on SIGTERM, so that little is lost", "code")
_EXCLUDE: Final = Fix(
    "Keep the node out of the next run and tell its administrators", "config", command="sbatch --exclude=NODE"
)
_REQUEUE: Final = Fix("Let the scheduler queue the job again by itself", "config", command="sbatch --requeue")
_RESTART: Final = Fix("Let the launcher restart the workers", "flag", command="torchrun --max-restarts 3 ...")
_PRIORITY: Final = Fix("Run it in a partition, QOS or priority class that is not preempted", "config")
_REQUEST: Final = Fix("Ask for what the pod uses: requests and limits of memory and ephemeral storage", "config")


def _fixes(kind: str, restarts: int | None) -> tuple[Fix, ...]:
    again = () if restarts else (_RESTART,)
    if kind in ("node-failure", "node-shutdown"):
        return (_CHECKPOINT, _EXCLUDE, _REQUEUE, *again) if kind == "node-failure" else (_CHECKPOINT, _REQUEUE, *again)
    return (_REQUEST, _CHECKPOINT) if kind == "evicted" else (_CHECKPOINT, _REQUEUE, _PRIORITY)


def _sentence(stop: Stop) -> str:
    resource = stop.told.resource or "a resource"
    return f"{_SAYS[stop.told.kind].format(job=named(stop), resource=resource)} (says {stop.told.by})."


@rule("CRS003", "job-preempted", Severity.FATAL, aliases=("X03", "preempted", "node-failure", "spot-interruption"))
def check(notices: JobStops, groups: WorkerGroups, exceptions: Exceptions, activity: Activity) -> Iterator[Finding]:
    """One finding an attempt."""
    for stop in stops(notices, KINDS):
        row = exceptions.said(stop.told)
        rest: dict[str, Any] = {
            "facts": {"what": stop.told.kind.replace("-", " "), **stop.facts},
            "fixes": _fixes(stop.told.kind, groups.restarts),
            "leaves": frozenset({JOB_STOPPED, PROCESS_DIED}),
            "related": stop.related,
            "claims": frozenset(event_of(e) for o in stop.others if (e := exceptions.said(o)) is not None),
        }
        if row is not None:
            yield from_exception(row, _sentence(stop), process="", **rest)
        elif not activity.job_went_on(stop.told.seq, stop.told.attempt):
            yield from_record(stop.told, _sentence(stop), Severity.FATAL, process="", ranks=(), **rest)
