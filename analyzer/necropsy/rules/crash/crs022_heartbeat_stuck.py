"""The NCCL watchdog itself got stuck

What it means
    Each process has a thread that watches its NCCL work, and a monitor that watches this
    thread. The monitor aborted the process because the thread made no progress. Unlike a
    collective that times out, nothing is said about other ranks: this process hangs.

Why it happens
    A CUDA or NCCL call of the process does not return (destroying events or communicators,
    an allocation that waits for the device, a driver fault) or another thread holds Python's
    interpreter lock (GIL) inside such a call. After a collective timed out, the abort of its
    communicator can hang as well.

How to confirm
    The stacks of the process: `py-spy dump --native --pid PID` while it hangs, or
    TORCH_NCCL_DEBUG_INFO_TEMP_FILE's dump. "Could not acquire GIL" in the log names the lock.

How to fix
    Keep long work that holds the GIL (checkpoint writing, tokenising, C extensions) out of the
    training process, or release the lock; update torch and the driver. If the wait is right,
    raise TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC.

Limits
    Which call hangs is not in the message. Where a collective timed out before, that is the
    cause.

References
    - https://pytorch.org/docs/stable/torch_nccl_environment_variables.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.messages.heartbeat import HeartbeatStuck

from necropsy.claim import from_record
from necropsy.conditions import DEVICE_FAULT, PEER_ABSENT, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.settings import Settings
from necropsy.evidence.stuck_watchdogs import StuckWatchdogs
from necropsy.evidence.worker_groups import WorkerGroups
from necropsy.finding import Confidence, Fact, Finding, Fix, Related, Severity
from necropsy.recovery import HEARTBEAT, ending, quotes, recorder
from necropsy.recovery import facts as settings_seen
from necropsy.rule import rule

_STACKS: Final = Fix(
    "See where the process hangs: dump its stacks while it does", "command", command="py-spy dump --native --pid PID"
)
_GIL: Final = Fix("Keep work that holds the interpreter lock for long out of the training process", "code")
_DEFAULTS: Final = ("480", "600")  # since torch 2.5, and before: nobody chose them
_SLOWER: Final = Fix(
    "If the work was right and only slow, allow more time",
    "env",
    "unsafe",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=1800",
)


def _fixes(gil: bool, settings: Settings, groups: WorkerGroups, chosen: bool) -> tuple[Fix, ...]:
    slower = () if chosen else (_SLOWER,)
    return (_STACKS, *((_GIL,) if gil else ()), *ending(settings, groups), *recorder(settings), *slower)


def _finding(rows: Sequence[HeartbeatStuck], settings: Settings, groups: WorkerGroups, chosen: bool) -> Finding:
    first = next((r for r in rows if r.seconds is not None), rows[0])
    ranks = tuple(sorted({r.spoken_by for r in rows if r.spoken_by is not None}))
    gil = any(r.gil for r in rows)
    seconds = next((r.seconds for r in rows if r.seconds is not None), None)
    long = f" for {seconds} s" if seconds is not None else ""
    who = f"of rank {ranks[0]}" if len(ranks) == 1 else f"of {len(ranks)} ranks" if ranks else "of a rank"
    why = (
        "another thread held Python's interpreter lock (GIL)"
        if gil
        else "a CUDA or NCCL call hangs, or a thread holds Python's interpreter lock (GIL)"
    )
    facts: dict[str, Fact] = {"GIL could not be had": gil}
    if seconds is not None:
        facts["no progress for"] = f"{seconds} s"
    facts.update(settings_seen(settings, groups))
    return from_record(
        first,
        f"The NCCL watchdog {who} made no progress{long} and the process was aborted: {why}.",
        Severity.FATAL,
        ranks=ranks,
        process=f"rank {ranks[0]}" if len(ranks) == 1 else "",
        confidence=Confidence.LIKELY if gil else Confidence.POSSIBLE,
        facts=facts,
        fixes=_fixes(gil, settings, groups, chosen),
        shows=frozenset({PEER_ABSENT, DEVICE_FAULT}),
        leaves=frozenset({PROCESS_DIED, PEER_ABSENT}),
        related=(*quotes(settings)[:3], *(Related(r.anchor, "the same") for r in rows if r is not first))[:4],
    )


@rule("CRS022", "heartbeat-stuck", Severity.FATAL, aliases=("X22", "watchdog-stuck", "gil-deadlock"))
def check(watchdogs: StuckWatchdogs, settings: Settings, groups: WorkerGroups, activity: Activity) -> Iterator[Finding]:
    """One finding an attempt."""
    of_attempt: dict[int, list[HeartbeatStuck]] = {}
    for w in watchdogs:
        of_attempt.setdefault(w.attempt, []).append(w)
    chosen = any(s.spoken_by is None or s.value not in _DEFAULTS for name in HEARTBEAT for s in settings.named(name))
    for attempt, rows in sorted(of_attempt.items()):
        if any(r.seconds is not None or not r.gil for r in rows) and not activity.job_went_on(rows[0].seq, attempt):
            yield _finding(rows, settings, groups, chosen)
