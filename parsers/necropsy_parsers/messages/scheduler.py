"""Jobs that were told to stop: by a scheduler, by a cloud that takes the machine back, or by a person.

    slurmstepd: error: *** JOB 88 ON node-3 CANCELLED AT 2026-11-29T04:00:12 DUE TO TIME LIMIT ***
    =>> PBS: job killed: walltime 3611 exceeded limit 3600
    TERM_RUNLIMIT: job killed after reaching LSF run time limit.
    Pod was terminated in response to imminent node shutdown.
    Received 15 death signal, shutting down workers                                       torchrun
    srun: error: Node failure on node-7

What a step or launcher stops because one of its own processes failed is read too (`kind` task-failure): it is a
consequence. Slurm's wordings: src/slurmd/slurmstepd/req.c; "DUE to SIGNAL" since 25.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.records import Record

NAME: Final = "scheduler"
TITLE: Final = "Jobs stopped by schedulers, clouds and people"
TRIGGERS: Final = (
    b" CANCELLED",
    b"FAILED (non-zero",
    b"Node failure on",
    b"exceeded its time limit",
    b"has been revoked",
    b"Ctrl-C to",
    b"forcing job termination",
    b"PBS: job killed",
    b"exceeded resource walltime",
    b"TERM_",
    b"exceeded hard wallclock",
    b"time limit for job execution",
    b"specified deadline",
    b"Preempted ",
    b"reempt",
    b"low on resource",
    b"imminent node shutdown",
    b"is evicted",
    b"Marking for deletion",
    b"is unresponsive",
    b"pot ",
    b"death signal",
    b"got signal:",
    b"Main process received",
    b"SIGTERM",
    b"KeyboardInterrupt",
    b"auto-requeue signal",
    b"Requeued SLURM",
    b"TIMEOUT",
    b"NODE_FAIL",
    b"its node has died",
    b"TERMINATED ON",
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "slurmstepd: error: *** JOB 88 ON node-3 CANCELLED AT 2026-11-29T04:00:12 DUE TO TIME LIMIT ***": {
        "kind": "time-limit",
        "by": "Slurm",
        "job": "88",
        "host": "node-3",
    },
    "=>> PBS: job killed: walltime 3611 exceeded limit 3600": {"kind": "time-limit", "by": "PBS", "limit_s": 3600},
    "Pod was terminated in response to imminent node shutdown.": {"kind": "node-shutdown", "by": "Kubernetes"},
}
_SLURM: Final = re.compile(
    r"\*\*\* (?:JOB|STEP) (?P<job>[\w.+-]+)(?: STEPD TERMINATED)?(?: ON (?P<host>[^\s*]+))?"
    r" (?:CANCELLED|FAILED|AT)\b(?P<why>[^*]*?)(?: on (?P<on>\S+))? *\*\*\*"
)
_WHY: Final = (
    ("TIME LIMIT", "time-limit"),
    ("PREEMPTION", "preempted"),
    ("NODE FAILURE", "node-failure"),
    ("JOB REQUEUE", "requeued"),
    ("TASK FAILURE", "task-failure"),
    ("non-zero exit code", "task-failure"),
    ("NOT ENDING WITH SIGNALS", "task-failure"),
)
_STATES: Final = {
    "TIMEOUT": "time-limit",
    "DEADLINE": "time-limit",
    "PREEMPTED": "preempted",
    "NODE_FAIL": "node-failure",
    "CANCELLED": "cancelled",
}
_STATE: Final = re.compile(
    r"^State: (?P<seff>[A-Z_]+)\b|\bJobState=(?P<scontrol>[A-Z_]+)\b"
    r"|^(?P<job>\d+(?:_\d+)?(?:\.\w+)?)\s.*?\b(?P<sacct>TIMEOUT|DEADLINE|PREEMPTED|NODE_FAIL|CANCELLED)(?: by "
    r"\d+|\+)?\s.*\d+:\d+"
)
# Of a cloud's notices only what has happened counts: "save a checkpoint when the node is preempted" is a plan.
_PLAN: Final = re.compile(
    r"\b(?:if|when|whenever|unless|until|once|in case|may|might|can|could|would|should|handler|regist\w+"
    r"|enabl\w+|listen\w*"
    r"|watch\w*|monitor\w*|poll\w*|checking|waiting for|support\w*|no|not|never|wait\w*)\b",
    re.IGNORECASE,
)
# Pattern, kind, who says it; in this order.
_FORMS: Final = (
    (
        r"srun: error: Node failure on (?P<host>\S+)|salloc: error: Node failure on (?P<other>\S+)",
        "node-failure",
        "Slurm",
    ),
    (r"(?:srun|salloc): (?:error: )?Job (?P<job>\d+) has exceeded its time limit", "time-limit", "Slurm"),
    (r"(?:srun|salloc): (?:error: )?Job allocation (?P<job>\d+) has been revoked", "cancelled", "Slurm"),
    (r"srun: (?:sending Ctrl-C to|forcing job termination)", "interrupted", "srun"),
    (r"PBS: job killed: (?:walltime|cput) (?P<used>\d+) exceeded limit (?P<limit>\d+)", "time-limit", "PBS"),
    (r"PBS: job killed: node \d+ \((?P<host>[^)\s]+)\) requested job (?:terminate|die)", "node-failure", "PBS"),
    (r"[Jj]ob exceeded resource walltime", "time-limit", "PBS"),
    (r"^TERM_(?:RUNLIMIT|CPULIMIT|DEADLINE|WINDOW): ", "time-limit", "LSF"),
    (r"^TERM_(?:PREEMPT|REQUEUE_ADMIN|REQUEUE_OWNER|REQUEUE_RC): ", "preempted", "LSF"),
    (r"^TERM_(?:OWNER|ADMIN|FORCE_OWNER|FORCE_ADMIN): ", "cancelled", "LSF"),
    (r"\bjob (?P<job>\d+(?:\.\d+)?) exceeded hard wallclock time", "time-limit", "Grid Engine"),
    (r"user-provided time limit for job execution has been reached", "time-limit", "mpirun"),
    (
        r"(?:Job|Pod) was active (?:on the node )?longer than (?:the )?specified deadline",
        "time-limit",
        "Kubernetes",
    ),
    (r"Pod was terminated in response to imminent node shutdown", "node-shutdown", "Kubernetes"),
    (r"The node was low on resource: (?P<resource>[\w-]+)", "evicted", "Kubernetes"),
    (
        r"(?:Usage of EmptyDir volume|[Pp]od ephemeral local storage usage) .{0,80}exceeds the (?:total )?limit",
        "evicted",
        "Kubernetes",
    ),
    (r"Preempted (?:by (?:a )?(?:pod )?\S+ on node|in order to admit critical pod)", "preempted", "Kubernetes"),
    (r"Pod is evicted, because of preempt", "preempted", "Volcano"),
    (r"Pod is evicted, because of (?P<resource>\S+)", "evicted", "Volcano"),
    (r"TaintManagerEviction.{0,80}Marking for deletion|^Marking for deletion Pod ", "node-failure", "Kubernetes"),
    (r"Node (?P<host>\S+) which was running pod \S+ is unresponsive", "node-failure", "Kubernetes"),
    (r"the actor's node was preempted", "preempted", "Ray"),
    (r"its node has died|the actor's node was terminated (?:un)?expectedly", "node-failure", "Ray"),
    (r"Received (?:Signals\.)?(?:SIGTERM|15) death signal, shutting down workers", "terminated", "torchrun"),
    (r"Received (?:Signals\.)?(?:SIGINT|2) death signal, shutting down workers", "interrupted", "torchrun"),
    (r"Received (?:Signals\.)?(?:SIGHUP|1) death signal, shutting down workers", "hangup", "torchrun"),
    (r"SignalException: Process \d+ got signal: (?:Signals\.)?(?:SIGTERM|15)$", "terminated", "torchrun"),
    (r"SignalException: Process \d+ got signal: (?:Signals\.)?(?:SIGINT|2)$", "interrupted", "torchrun"),
    (r"SignalException: Process \d+ got signal: (?:Signals\.)?(?:SIGHUP|1)$", "hangup", "torchrun"),
    (r"Main process received SIGTERM, exiting", "terminated", "DeepSpeed"),
    (r"Main process received SIGINT, exiting", "interrupted", "DeepSpeed"),
    (r"(?:^|\] )(?:Received|Bypassing) SIGTERM: \d+$", "terminated", "Lightning"),
    (r"SIGTERM received, will request JIT checkpoint", "terminated", "the HF Trainer"),
    (r"Detected KeyboardInterrupt, attempting (?:to )?grace", "interrupted", "Lightning"),
    (r"Handling auto-requeue signal: \d+$|Requeued SLURM job: ", "requeued", "Lightning"),
)
_CLOUD: Final = (
    (r"\b[Ss]pot (?:[Ii]nstance )?(?:[Ii]nterruption|[Tt]ermination) (?:[Nn]otice|[Ww]arning)\b", "preempted"),
    (
        r"\b(?:[Ii]nstance|VM|[Nn]ode|[Mm]achine|TPU|[Ww]orker)\b[^\n]{0,60}? (?:was|is being|has been|got) "
        r"preempted\b",
        "preempted",
    ),
    (r"compute\.instances\.preempted", "preempted"),
    (r'"EventType": ?"Preempt"', "preempted"),
)


class JobStop(Record, frozen=True):
    """One stop.

    `kind`: time-limit, preempted, evicted, node-shutdown, node-failure, requeued, cancelled (by a command), interrupted
    (Ctrl-C), hangup (its terminal was closed), terminated (SIGTERM from somebody), task-failure (a consequence).
    `by` is who says it; `job`, `host`, `resource` ("" if untold) as printed; `limit_s` the limit in seconds.
    """

    kind: str
    by: str
    job: str
    host: str
    resource: str
    limit_s: int | None
    from_exception: bool


def read(message: Message) -> Iterator[JobStop]:
    """The stop that `message` reports, if it does."""
    text = " ".join(message.text.split()) if message.exception is not None else message.first.strip()
    found = _slurm(text) or _state(text) or _form(text) or _cloud(text)
    if found is None:
        return
    kind, by, part = found
    yield JobStop(
        message.anchor,
        kind,
        by,
        part.get("job") or "",
        part.get("host") or part.get("on") or part.get("other") or message.origin.host or "",
        part.get("resource") or "",
        int(part["limit"] or 0) if part.get("limit") else None,
        message.exception is not None,
        **message.common,
    )


_Found = tuple[str, str, dict[str, str | None]]


def _slurm(text: str) -> _Found | None:
    m = _SLURM.search(text)
    if m is None or not text.startswith(("***", "slurm", "srun: ", "error: ")):
        return None
    return next((kind for word, kind in _WHY if word in m["why"]), "cancelled"), "Slurm", m.groupdict()


def _state(text: str) -> _Found | None:
    """A job's state as Slurm's accounting prints it: seff, scontrol, sacct."""
    m = _STATE.search(text)
    kind = _STATES.get(m["seff"] or m["scontrol"] or m["sacct"]) if m is not None else None
    return (kind, "Slurm's accounting", m.groupdict()) if kind and m is not None else None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled on first use: most logs need none of the forty."""
    return re.compile(pattern)


def _form(text: str) -> _Found | None:
    for pattern, kind, by in _FORMS:
        if (m := _compiled(pattern).search(text)) is not None:
            return kind, by, m.groupdict()
    return None


def _cloud(text: str) -> _Found | None:
    for pattern, kind in _CLOUD:
        if (m := _compiled(pattern).search(text)) is not None and not _PLAN.search(text):
            return kind, "the cloud", m.groupdict()
    return None
