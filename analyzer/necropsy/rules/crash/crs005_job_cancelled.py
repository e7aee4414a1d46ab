"""The job was cancelled or interrupted

What it means
    Somebody or something told the job to stop: `scancel`, Ctrl-C, a closed terminal, a signal
    from outside. Without an earlier failure the program did nothing wrong.

Why it happens
    A person's decision, a job that depends on another, a policy (idle GPUs), a lost ssh
    connection, a supervisor that restarts a container.

How to confirm
    `sacct -j JOB -o State` names the user who cancelled; the scheduler's and the container's
    events. An earlier failure in the log is often the reason.

How to fix
    Nothing, if it was meant. Start long jobs under the scheduler or in tmux; save a checkpoint
    on SIGTERM.

Limits
    A bare SIGTERM does not tell who sent it: time limits, preemption and shutdowns send it too,
    and their record may be in another log.

References
    - https://slurm.schedmd.com/scancel.html
    - https://man7.org/linux/man-pages/man7/signal.7.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages.scheduler import JobStop

from necropsy.claim import event_of, from_exception, from_record
from necropsy.conditions import JOB_STOPPED, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.job_stops import JobStops
from necropsy.evidence.process_exits import ProcessExits
from necropsy.finding import Confidence, Finding, Fix, Related, Severity
from necropsy.provenance.stops import Stop, named, stops
from necropsy.rule import rule

_TOLD: Final = ("time-limit", "node-failure", "node-shutdown", "preempted", "evicted", "requeued", "task-failure")
_BY_HAND: Final = ("KeyboardInterrupt",)
_LEAVES: Final = frozenset({JOB_STOPPED, PROCESS_DIED})
_TMUX: Final = Fix("Start it where it outlives the terminal: the scheduler, tmux, or setsid nohup", "command")
_WHO: Final = Fix(
    "Ask who stopped it",
    "command",
    command="sacct -j JOBID -o JobID,State,Elapsed,Timelimit ; kubectl describe pod POD",
)
_SAVE: Final = Fix("Save a checkpoint when SIGTERM comes", "code")


def _said(stop: Stop) -> tuple[str, Severity, Confidence, tuple[Fix, ...]]:
    told = stop.told
    if told.kind == "cancelled":
        sentence = f"{named(stop)} was cancelled (says {told.by}): a person's or a policy's decision."
        return sentence, Severity.NOTE, Confidence.CERTAIN, ()
    if told.kind == "interrupted":
        return "The run was interrupted by hand (Ctrl-C, SIGINT).", Severity.NOTE, Confidence.CERTAIN, ()
    if told.kind == "hangup":
        sentence = f"The terminal of {told.by} was closed (SIGHUP), and the job ended with it."
        return sentence, Severity.FATAL, Confidence.LIKELY, (_TMUX,)
    sentence = (
        f"The job was told to stop: {told.by} received SIGTERM; the log does not say from whom, "
        "so the reason (cancelled, time limit, preemption, shutdown) is undetermined."
    )
    return sentence, Severity.FATAL, Confidence.POSSIBLE, (_WHO, _SAVE)


def _failed_before(told: JobStop, exits: ProcessExits) -> bool:
    """Whether a process had failed by itself: then srun (--kill-on-bad-exit) cancels the step, not a person."""
    return any(
        e.seq < told.seq and e.attempt == told.attempt and e.signal not in ("SIGTERM", "SIGINT") and e.code != 0
        for e in exits
    )


@rule("CRS005", "job-cancelled", Severity.NOTE, aliases=("X05", "cancelled", "interrupted", "keyboard-interrupt"))
def check(notices: JobStops, exceptions: Exceptions, activity: Activity, exits: ProcessExits) -> Iterator[Finding]:
    """One finding an attempt that a person or an unknown sender stopped."""
    explained = {n.attempt for n in notices if n.kind in _TOLD}
    found = stops(notices, ("cancelled", "interrupted", "hangup", "terminated"))
    for stop in found:
        told = stop.told
        if told.attempt in explained or activity.job_went_on(told.seq, told.attempt):
            continue
        if told.kind == "cancelled" and _failed_before(told, exits):
            continue
        sentence, severity, confidence, fixes = _said(stop)
        row = exceptions.said(told)
        yield from_record(
            told,
            sentence,
            severity,
            confidence=confidence,
            process="",
            ranks=(),
            facts=stop.facts,
            fixes=fixes,
            event=event_of(row) if row is not None else f"JobStop@{told.anchor.input}:{told.seq}",
            leaves=_LEAVES,
            shows=frozenset({PROCESS_DIED}),
            related=stop.related,
            claims=frozenset(
                event_of(e)
                for e in exceptions
                if e.name in (*_BY_HAND, "SignalException") and e.attempt == told.attempt
            ),
            last_resort=told.kind == "terminated",
        )
    for attempt in {e.attempt for e in exceptions if e.name in _BY_HAND} - {s.told.attempt for s in found} - explained:
        first, *others = [e for e in exceptions if e.name in _BY_HAND and e.attempt == attempt]
        yield from_exception(
            first,
            "The run was interrupted by hand (KeyboardInterrupt).",
            severity=Severity.NOTE,
            leaves=_LEAVES,
            related=tuple(Related(e.anchor, "interrupted there too") for e in others[:4]),
            claims=frozenset(event_of(e) for e in others),
        )
