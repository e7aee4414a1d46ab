"""The finding about collectives that timed out, shared by the rules that know more or less of who never came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from necropsy_parsers.messages.collective_timeout import CollectiveTimeout

from necropsy.claim import event_of, from_incident
from necropsy.conditions import GARBAGE, PEER_ABSENT, PROCESS_DIED
from necropsy.evidence.collective_stacks import CollectiveStacks
from necropsy.evidence.dump_signals import DumpSignals
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.settings import Settings
from necropsy.evidence.worker_groups import WorkerGroups
from necropsy.finding import Confidence, Fact, Finding, Fix, Place, Related
from necropsy.provenance.frames import innermost_user, place_of
from necropsy.recovery import ending, quotes, recorder, renamed
from necropsy.recovery import facts as settings_seen
from necropsy.suspects import Suspects

ALONE: Final = Fix(
    "Run that work on all ranks, or let the others wait at a barrier of a gloo group with a long timeout", "code"
)
LOGS: Final = Fix(
    "Give the logs of all ranks (one file a rank is fine): the one that does not complain is the suspect", "investigate"
)
LIMIT: Final = Fix("Raise the limit only if the wait is meant: init_process_group(timeout=timedelta(hours=2))", "code")


def _call(t: CollectiveTimeout) -> str:
    return f"{t.operation}" + (f" #{t.sequence}" if t.sequence is not None else "")


def seconds(milliseconds: int) -> str:
    """Milliseconds as whole seconds in words; any number may stand in a log, whatever a float holds."""
    return f"{(milliseconds + 500) // 1000:,} s" if milliseconds < 10**15 else "ages"


def names(ranks: Sequence[int]) -> str:
    """Ranks in a sentence: `rank 3`, `ranks 1, 3`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = ", ".join(map(str, ranks[:6]))
    return f"ranks {shown}" + (f" and {len(ranks) - 6} more" if len(ranks) > 6 else "")


def _message(t: CollectiveTimeout, waiting: Sequence[int], suspects: Suspects) -> str:
    limit = f" after {seconds(t.ran_ms or t.limit_ms or 0)}" if t.ran_ms or t.limit_ms else ""
    who = names(waiting).capitalize() if waiting else "A rank"
    waited = f"{who} waited in {_call(t)} and timed out{limit}"
    if not suspects.ranks:
        return f"{waited}: another rank never joined; which one the log does not show (undetermined)."
    busy = f'; its last line is "{suspects.last}"' if suspects.last and len(suspects.ranks) == 1 else ""
    return f"{waited}: {names(suspects.ranks)} never joined ({suspects.clause}){busy}."


def timeout_finding(
    rows: Sequence[CollectiveTimeout],
    suspects: Suspects,
    dumps: DumpSignals,
    settings: Settings,
    groups: WorkerGroups,
    exceptions: Exceptions,
    stacks: CollectiveStacks,
) -> Finding:
    """The finding about the timeouts of one attempt; DST014 tells the same event when it knows who never entered."""
    first = rows[0]
    waiting = sorted({r.rank for r in rows if r.rank is not None})
    facts: dict[str, Fact] = {"collective": _call(first)}
    if waiting:
        facts["waiting ranks"] = waiting
    if first.limit_ms:
        facts["limit"] = seconds(first.limit_ms)
    if first.elements == 1:
        facts["elements"] = 1
    started = sorted({d.rank for d in dumps if d.initiator and d.rank is not None and d.attempt == first.attempt})
    facts.update(settings_seen(settings, groups))
    if started:
        facts["dump started by ranks"] = started
    raised = [row for t in rows if (row := exceptions.said(t)) is not None]
    changes: dict[str, Any] = {}
    if places := _waiting_places(first.attempt, stacks):
        changes["code"] = places
    return from_incident(
        first,
        next((row for row in raised if row.places), None),
        _message(first, waiting, suspects),
        seq=first.seq,
        anchor=first.anchor,
        ranks=suspects.ranks,
        facts=facts,
        confidence=Confidence.LIKELY if suspects.ranks else Confidence.POSSIBLE,
        fixes=_advice(suspects, settings, groups),
        related=(*quotes(settings)[:3], *_waiting_too(rows))[:6],
        shows=frozenset({PEER_ABSENT}),
        leaves=frozenset({PEER_ABSENT, PROCESS_DIED, GARBAGE}),
        event=f"collective-timeout@{first.attempt}",
        claims=frozenset(event_of(row) for row in raised),
        **changes,
    )


def _waiting_too(rows: Sequence[CollectiveTimeout]) -> tuple[Related, ...]:
    return tuple(Related(r.anchor, f"rank {r.rank} waits too") for r in rows[1:] if r.rank != rows[0].rank)[:5]


def _waiting_places(attempt: int, stacks: CollectiveStacks) -> tuple[Place, ...]:
    """Where the waiting ranks called the collective, each place once."""
    users = [innermost_user(s.frames) for s in stacks if s.attempt == attempt]
    places = {place_of(u, how="stack of the waiting collective"): None for u in users if u is not None}
    return tuple(places)[:3]


def _advice(suspects: Suspects, settings: Settings, groups: WorkerGroups) -> tuple[Fix, ...]:
    """Next steps: about the rank that did not come, then about the settings that the log shows."""
    own = (ALONE, LIMIT) if suspects.ranks else (LOGS,)
    return (*own, *ending(settings, groups), *recorder(settings), *renamed(settings))
