"""The job reached its time limit

What it means
    The scheduler stopped the job because the time it had asked for was over. What its
    processes printed afterwards is a consequence.

Why it happens
    The limit was too short, the job slower than planned, or it hung: a rank that waits for a
    dead one can use up the whole limit.

How to confirm
    `sacct -j JOB -o Elapsed,Timelimit`; the time of the last progress line in the log.

How to fix
    Save checkpoints before the limit (Slurm: `--signal=B:USR1@300`), resume, ask for more
    time. After a hang, find what hung first.

Limits
    That the job hung is only told if an earlier failure stands in the log.

References
    - https://slurm.schedmd.com/sbatch.html
    - https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_record
from necropsy.conditions import JOB_STOPPED, PEER_ABSENT, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.job_stops import JobStops
from necropsy.evidence.settings import Settings
from necropsy.evidence.worker_groups import WorkerGroups
from necropsy.finding import Finding, Fix, Severity
from necropsy.provenance.stops import named, stops
from necropsy.recovery import hanging, quotes
from necropsy.rule import rule

_HOW_MORE: Final = {
    "Slurm": "sbatch --time=24:00:00",
    "PBS": "qsub -l walltime=24:00:00",
    "LSF": "bsub -W 24:00",
    "Grid Engine": "qsub -l h_rt=24:00:00",
    "Kubernetes": "spec.activeDeadlineSeconds: 86400",
    "mpirun": "mpirun --timeout 86400",
}


@rule("CRS004", "time-limit", Severity.FATAL, aliases=("X04", "timeout-of-scheduler"))
def check(notices: JobStops, activity: Activity, settings: Settings, groups: WorkerGroups) -> Iterator[Finding]:
    """One finding an attempt."""
    for stop in stops(notices, ("time-limit",)):
        told = stop.told
        if activity.job_went_on(told.seq, told.attempt):
            continue
        limit = f" of {told.limit_s} s" if told.limit_s else ""
        facts = stop.facts
        last = activity.last_step(told.seq, told.attempt)
        if last is not None:
            facts["last progress"] = last.last.strip()[:120]
        yield from_record(
            told,
            f"{named(stop)} was stopped because its time limit{limit} was reached (says {told.by}).",
            Severity.FATAL,
            process="",
            ranks=(),
            facts=facts,
            fixes=(
                Fix(
                    "Save a checkpoint before the limit and resume from it",
                    "code",
                    command="#SBATCH --signal=B:USR1@300",
                )
                if told.by.startswith("Slurm")
                else Fix("Save a checkpoint before the limit and resume from it", "code"),
                Fix("Ask for more time", "config", command=_HOW_MORE.get(told.by.split("'")[0], "")),
                Fix(
                    "If the last progress is much older than the limit, the job hung: look for what it waited for",
                    "investigate",
                ),
                *hanging(settings, groups),
            ),
            leaves=frozenset({JOB_STOPPED, PROCESS_DIED}),
            shows=frozenset({PEER_ABSENT}),  # ranks that wait for a dead one wait until the limit
            related=(*stop.related, *quotes(settings, dumps=False)),
        )
