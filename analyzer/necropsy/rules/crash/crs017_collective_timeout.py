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

Limits
    A timeout is a root only if nothing earlier explains it. Ranks without any line in the
    inputs cannot be suspected. Sequence numbers are compared within one process group only.

References
    - https://docs.pytorch.org/docs/stable/distributed.html
    - https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from necropsy_parsers.messages.collective_timeout import CollectiveTimeout

from necropsy.claim import from_record, told
from necropsy.conditions import GARBAGE, PEER_ABSENT, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.collective_timeouts import CollectiveTimeouts
from necropsy.evidence.dump_signals import DumpSignals
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.lagging_ranks import LaggingRankRows
from necropsy.evidence.nccl_communicators import NcclCommunicators
from necropsy.evidence.settings import Settings
from necropsy.evidence.transport_errors import TransportErrors
from necropsy.evidence.watchdog_counters import WatchdogCounterRows
from necropsy.finding import Confidence, Fact, Finding, Fix, Related, Severity
from necropsy.rule import rule

_DUMPS: Final = Fix(
    "Collect flight-recorder dumps of all ranks; they name the rank that never entered, and its Python line",
    "env",
    "safe",
    command="TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/tmp/nccl_trace_rank_",
)
_ALONE: Final = Fix(
    "Run that work on all ranks, or let the others wait at a barrier of a gloo group with a long timeout", "code"
)
_LOGS: Final = Fix(
    "Give the logs of all ranks (one file a rank is fine): the one that does not complain is the suspect", "investigate"
)
_LIMIT: Final = Fix("Raise the limit only if the wait is meant: init_process_group(timeout=timedelta(hours=2))", "code")


@dataclass(frozen=True, slots=True)
class Suspects:
    """Ranks that did not join, how that is known, and what they last said."""

    ranks: tuple[int, ...]
    how: str
    last: str


def _suspects(
    waiting: set[int],
    attempt: int,
    lagging: LaggingRankRows,
    counters: WatchdogCounterRows,
    activity: Activity,
    communicators: NcclCommunicators,
    exceptions: Exceptions,
) -> Suspects:
    """The desync report's answer, else the counters', else the ranks that are seen and do not complain."""
    for row in lagging:
        if row.attempt == attempt:
            return Suspects(row.ranks, "torch's desync report names them", _last_words(row.ranks, activity))
    idle = _idle(counters, attempt)
    if idle:
        return Suspects(idle, "their counters stand still while the others wait", _last_words(idle, activity))
    seen = {int(r.writer[4:]) for r in activity if r.writer.startswith("rank") and r.attempt == attempt}
    seen |= (
        {r for c in communicators if c.attempt == attempt for r in range(c.nranks)}
        if _complete(communicators)
        else set()
    )
    failed = {e.origin.rank for e in exceptions if not e.handled and e.origin.rank is not None and e.attempt == attempt}
    quiet = tuple(sorted((seen - waiting) & failed or seen - waiting))
    return (
        Suspects(quiet, "they do not complain", _last_words(quiet, activity))
        if waiting and quiet
        else Suspects((), "", "")
    )


def _complete(communicators: NcclCommunicators) -> bool:
    """Whether every rank of the largest communicator reports itself: then a silent rank is really silent."""
    size = max((c.nranks for c in communicators), default=0)
    return size > 0 and {c.rank for c in communicators if c.nranks == size} == set(range(size))


def _idle(counters: WatchdogCounterRows, attempt: int) -> tuple[int, ...]:
    """Ranks of a group with nothing outstanding while others of the same group wait in a later work."""
    groups: dict[str, list[tuple[int, int, int]]] = {}
    for c in counters:
        if c.attempt == attempt and c.rank is not None and c.group:
            groups.setdefault(c.group, []).append((c.rank, c.enqueued, c.completed))
    idle: set[int] = set()
    for rows in groups.values():
        most = max(enqueued for _, enqueued, _ in rows)
        behind = {rank for rank, enqueued, completed in rows if enqueued == completed and enqueued < most}
        if behind and any(completed < enqueued for _, enqueued, completed in rows):
            idle |= behind
    return tuple(sorted(idle))


def _last_words(ranks: Sequence[int], activity: Activity) -> str:
    """The last line that the first of these ranks wrote."""
    for rank in ranks[:1]:
        rows = [r for r in activity if r.writer == f"rank{rank}" and r.last.strip()]
        if rows:
            return max(rows, key=lambda r: r.seq).last.strip()[:120]
    return ""


def _call(t: CollectiveTimeout) -> str:
    return f"{t.operation}" + (f" #{t.sequence}" if t.sequence is not None else "")


def _names(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = ", ".join(map(str, ranks[:6]))
    return f"ranks {shown}" + (f" and {len(ranks) - 6} more" if len(ranks) > 6 else "")


def _by(suspects: Suspects) -> str:
    """How the suspects are known, in the right number."""
    return (
        suspects.how
        if len(suspects.ranks) != 1
        else suspects.how.replace("they do", "it does")
        .replace("them", "it")
        .replace("their counters stand", "its counter stands")
    )


def _message(t: CollectiveTimeout, waiting: Sequence[int], suspects: Suspects) -> str:
    limit = f" after {(t.ran_ms or t.limit_ms or 0) / 1000:,.0f} s" if t.ran_ms or t.limit_ms else ""
    who = _names(waiting).capitalize() if waiting else "A rank"
    waited = f"{who} waited in {_call(t)} and timed out{limit}"
    if not suspects.ranks:
        return f"{waited}: another rank never joined; which one the log does not show (undetermined)."
    busy = f'; its last line is "{suspects.last}"' if suspects.last and len(suspects.ranks) == 1 else ""
    return f"{waited}: {_names(suspects.ranks)} never joined ({_by(suspects)}){busy}."


def _nccl(rows: Sequence[CollectiveTimeout], suspects: Suspects, dumps: DumpSignals, debug: bool) -> Finding:
    first = rows[0]
    waiting = sorted({r.rank for r in rows if r.rank is not None})
    facts: dict[str, Fact] = {"collective": _call(first)}
    if waiting:
        facts["waiting ranks"] = waiting
    if first.limit_ms:
        facts["limit"] = f"{first.limit_ms / 1000:,.0f} s"
    if first.elements == 1:
        facts["elements"] = 1
    started = sorted({d.rank for d in dumps if d.initiator and d.rank is not None and d.attempt == first.attempt})
    if started:
        facts["dump started by ranks"] = started
    fixes = (_ALONE, _LIMIT, _DUMPS) if suspects.ranks else (_LOGS, _DUMPS)
    return from_record(
        first,
        _message(first, waiting, suspects),
        Severity.FATAL,
        ranks=suspects.ranks,
        facts=facts,
        confidence=Confidence.LIKELY if suspects.ranks else Confidence.POSSIBLE,
        fixes=fixes if not debug else fixes[:-1],
        related=tuple(Related(r.anchor, f"rank {r.rank} waits too") for r in rows[1:] if r.rank != first.rank)[:5],
        shows=frozenset({PEER_ABSENT}),
        leaves=frozenset({PEER_ABSENT, PROCESS_DIED, GARBAGE}),
        event=f"collective-timeout@{first.attempt}",
    )


@rule("CRS017", "collective-timeout", Severity.FATAL, aliases=("X17", "nccl-timeout", "watchdog-timeout"))
def check(
    timeouts: CollectiveTimeouts,
    lagging: LaggingRankRows,
    counters: WatchdogCounterRows,
    dumps: DumpSignals,
    transport: TransportErrors,
    communicators: NcclCommunicators,
    exceptions: Exceptions,
    settings: Settings,
    activity: Activity,
) -> Iterator[Finding]:
    """One finding an attempt for NCCL's watchdog, one an exception for gloo's waits and barriers."""
    debug = any(s.name == "TORCH_NCCL_DUMP_ON_TIMEOUT" and s.value not in ("0", "false") for s in settings)
    for attempt in sorted({t.attempt for t in timeouts}):
        rows = [t for t in timeouts if t.attempt == attempt]
        waiting = {t.rank for t in rows if t.rank is not None}
        yield _nccl(
            rows, _suspects(waiting, attempt, lagging, counters, activity, communicators, exceptions), dumps, debug
        )
    for error in transport:
        if error.kind == "closed":
            continue
        absent = (
            f"{_names(error.absent)} did not reach the barrier"
            if error.absent
            else "a peer never came; which one the log does not show (undetermined)"
        )
        waited = f" after {error.waited_ms / 1000:,.0f} s" if error.waited_ms else ""
        yield from told(
            error,
            exceptions,
            f"A wait for another rank timed out{waited}: {absent}.",
            Severity.FATAL,
            activity=activity,
            ranks=error.absent,
            facts={"error": error.why},
            confidence=Confidence.LIKELY if error.absent else Confidence.POSSIBLE,
            fixes=(_ALONE, _LIMIT) if error.absent else (_LOGS, _LIMIT),
            shows=frozenset({PEER_ABSENT}),
            leaves=frozenset({PEER_ABSENT, PROCESS_DIED}),
        )
