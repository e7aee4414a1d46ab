"""A collective timed out: some rank never took part

What it means
    Ranks waited in a collective until its time limit, because at least one other rank did not
    join. The ranks that complain are the ones that *did* come; the watchdog then ends them.

Why it happens
    A rank failed before (then that is the root), does work alone while the others wait
    (evaluation, checkpoint, download on rank 0), is stuck (dead lock, slow file system), or
    called another collective.

How to confirm
    Which ranks do not complain? What was their last line? Flight-recorder dumps of all ranks
    name the one that never entered, with its Python stack.

How to fix
    Let all ranks do the work, or put the others behind a barrier with a limit long enough;
    raise the timeout only if the wait is meant.

    Where the log shows the settings in force (TORCH_CPP_LOG_LEVEL=INFO, a launcher's exports,
    torchrun's launch configuration), the advice is about them: error handling that leaves
    ranks hanging (TORCH_NCCL_ASYNC_ERROR_HANDLING=0 or 2), blocking waits, a monitor or a
    flight recorder that is off, no restarts. What is on is not advised.

Limits
    A timeout is a root only if nothing earlier explains it. Ranks without any line in the
    inputs cannot be suspected. Sequence numbers are compared within one process group only.

References
    - https://docs.pytorch.org/docs/stable/distributed.html
    - https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html
    - https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy_parsers.messages.gloo_error import TransportError

from necropsy.claim import event_of, handled, told
from necropsy.conditions import PEER_ABSENT, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.collective_stacks import CollectiveStacks
from necropsy.evidence.collective_timeouts import CollectiveTimeouts
from necropsy.evidence.dump_signals import DumpSignals
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.nccl_communicators import NcclCommunicators
from necropsy.evidence.settings import Settings
from necropsy.evidence.transport_errors import TransportErrors
from necropsy.evidence.worker_groups import WorkerGroups
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.recovery import again
from necropsy.rule import rule
from necropsy.suspects import Suspects, quiet, silent
from necropsy.timeouts import ALONE, LIMIT, LOGS, names, seconds, timeout_finding


@rule("CRS017", "collective-timeout", Severity.FATAL, general=True, aliases=("X17", "nccl-timeout", "watchdog-timeout"))
def check(
    timeouts: CollectiveTimeouts,
    dumps: DumpSignals,
    stacks: CollectiveStacks,
    transport: TransportErrors,
    communicators: NcclCommunicators,
    exceptions: Exceptions,
    settings: Settings,
    groups: WorkerGroups,
    activity: Activity,
) -> Iterator[Finding]:
    """One finding an attempt for NCCL's watchdog, one an exception for gloo's waits and barriers."""
    for attempt in sorted({t.attempt for t in timeouts}):
        rows = [t for t in timeouts if t.attempt == attempt]
        suspects = quiet(rows, attempt, activity, communicators, exceptions)
        yield timeout_finding(rows, suspects, dumps, settings, groups, exceptions, stacks)
    absent: dict[int, Suspects] = {}
    for error in transport:
        if error.kind != "closed":
            tolerated = activity.job_went_on(error.seq, error.attempt)
            if error.attempt not in absent:
                complaining = {r for e in transport if e.attempt == error.attempt and (r := e.origin.rank) is not None}
                absent[error.attempt] = silent(complaining, set(), error.attempt, activity, communicators, exceptions)
            suspects = absent[error.attempt]
            found = _gloo(error, suspects, again(settings, groups), exceptions, activity)
            yield from (handled(f) if tolerated else f for f in found)


def _gloo(
    error: TransportError, suspects: Suspects, seen: tuple[Fix, ...], exceptions: Exceptions, activity: Activity
) -> Iterator[Finding]:
    absent = error.absent or suspects.ranks
    if error.absent:
        who = f"{names(error.absent)} did not reach the barrier"
    elif absent:
        busy = f'; its last line is "{suspects.last}"' if suspects.last and len(absent) == 1 else ""
        who = f"{names(absent)} never came ({suspects.clause}){busy}"
    else:
        who = "a peer never came; which one the log does not show (undetermined)"
    waited = f" after {seconds(error.waited_ms)}" if error.waited_ms else ""
    row = exceptions.said(error)
    yield from told(
        error,
        exceptions,
        f"A wait for another rank timed out{waited}: {who}.",
        Severity.FATAL,
        activity=activity,
        ranks=absent,
        facts={"error": error.why},
        confidence=Confidence.LIKELY if absent else Confidence.POSSIBLE,
        fixes=(*((ALONE, LIMIT) if absent else (LOGS, LIMIT)), *seen),
        shows=frozenset({PEER_ABSENT}),
        leaves=frozenset({PEER_ABSENT, PROCESS_DIED}),
        event=f"gloo-wait@{error.anchor.input}:{error.seq}",
        claims=frozenset({event_of(row)} if row is not None else ()),
    )
