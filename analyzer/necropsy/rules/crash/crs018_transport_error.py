"""The connection to another rank broke

What it means
    NCCL or gloo lost a peer: its process ended, or the network between them failed. The rank
    that reports it is the witness, not the cause.

Why it happens
    The peer crashed, was killed or left early; a node or a link failed (InfiniBand, switch,
    firewall). NCCL itself offers both ("network error or remote process exiting").

How to confirm
    Read the log of the peer named (host and port), at the time of the error; `dmesg` and the
    link counters of that node if its processes were alive.

How to fix
    What the peer's log says. For links: replace or drain the node.

Limits
    If the peer's log is among the inputs, its failure is the root and this its consequence;
    otherwise the cause is undetermined. Where every rank complains and no line has a clock, a
    wait that timed out came first: who notices a closed connection is not the first to end.

References
    - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.messages.gloo_error import TransportError
from necropsy_parsers.messages.nccl_error import NcclError

from necropsy.claim import event_of, from_exception, from_incident
from necropsy.conditions import GARBAGE, PEER_ABSENT, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.nccl_errors import NcclErrors
from necropsy.evidence.settings import Settings
from necropsy.evidence.transport_errors import TransportErrors
from necropsy.evidence.worker_groups import WorkerGroups
from necropsy.finding import Confidence, Fact, Finding, Fix, Related, Severity
from necropsy.recovery import ending
from necropsy.rule import rule

_SAYS: Final = {
    "remote": "the peer{at} is gone or the network to it failed",
    "system": "a system call or the network failed{at}",
    "shared-memory": "shared memory (/dev/shm) is too small for NCCL's buffers",
    "internal": "NCCL failed inside (internal error)",
    "usage": "NCCL was used in a way it does not allow (invalid usage)",
    "aborted": "the communicator was aborted because another rank failed",
}
_LOST: Final = ("remote", "aborted", "system")  # the other side is gone: its kinds
_DEBUG: Final = Fix(
    "Run again with NCCL_DEBUG=INFO, which names the call and the peer",
    "env",
    "safe",
    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET",
)


_SHM: Final = Fix(
    "Give the container a larger /dev/shm, or let NCCL do without it",
    "config",
    command="docker run --shm-size=16g ...   # or --ipc=host; NCCL_SHM_DISABLE=1",
)


def _peer_fixes(peer: str) -> tuple[Fix, ...]:
    if not peer:
        return (
            Fix(
                "Collect the logs of all ranks: the one whose log ends first, or with its own error, is the cause",
                "investigate",
            ),
            _DEBUG,
        )
    return (
        Fix(f"Open the log of the host {peer} at the time of this error; this log is a witness's", "investigate"),
        Fix(
            "If its processes were alive, check the node's network and driver",
            "command",
            command="dmesg -T | grep -i -E 'xid|mlx|link|oom' ; ibstat",
        ),
    )


def _fixes(kind: str, peer: str) -> tuple[Fix, ...]:
    if kind == "shared-memory":
        return (_SHM,)
    return _peer_fixes(peer) if kind in ("remote", "aborted") or peer else (_DEBUG,)


def _nccl(
    kind: str, errors: Sequence[NcclError], exceptions: Exceptions, follows: str, seen: tuple[Fix, ...]
) -> Finding:
    first = errors[0]
    named = next((e for e in errors if e.peer), first)
    at = f" at {named.peer}" if named.peer else ""
    why = f" ({named.why.rstrip('.')})" if named.why else ""
    row = next((r for e in errors if (r := exceptions.said(e)) is not None and r.places), None)
    facts: dict[str, Fact] = {"kind": kind}
    if named.peer:
        facts["peer"] = named.peer
    reporting = sorted({e.origin.rank for e in errors if e.origin.rank is not None})
    if reporting:
        facts["reported by ranks"] = reporting
    clause = _SAYS[kind].format(at=at)
    shows = {PROCESS_DIED, PEER_ABSENT} if kind in _LOST else set()
    own = kind in ("shared-memory", "internal", "usage")
    undetermined = "; the cause is not in this log" if kind in ("remote", "aborted") else ""
    return from_incident(
        first,
        row,
        f"NCCL error{why}: {clause}{undetermined}.",
        ranks=tuple(reporting) if own else (),
        facts=facts,
        confidence=Confidence.POSSIBLE if undetermined else Confidence.LIKELY,
        fixes=(*_fixes(kind, named.peer), *(seen if kind in _LOST else ())),
        shows=frozenset(shows),
        leaves=frozenset({PROCESS_DIED, PEER_ABSENT, GARBAGE}),
        related=_copies(errors),
        event=f"nccl-{kind}@{first.attempt}",
        claims=frozenset(event_of(r) for e in errors if (r := exceptions.said(e)) is not None),
        follows=follows,
        seq=first.seq,
    )


def _copies(errors: Sequence[NcclError]) -> tuple[Related, ...]:
    """The other reports of the same error."""
    labels = [f"the same on rank {e.origin.rank}" if e.origin.rank is not None else "again" for e in errors]
    return tuple(Related(e.anchor, label) for e, label in zip(errors[1:4], labels[1:4], strict=True))


def _first_waits(transport: TransportErrors, exceptions: Exceptions, activity: Activity) -> dict[int, str]:
    """Attempt -> event of a wait that timed out, where closed connections can only follow from such.

    Whoever notices a closed connection is not the first to end. If every rank seen complains, of a closed
    connection or of a wait, it was one that waited. Only without clocks: those tell the order themselves.
    """
    found: dict[int, str] = {}
    by_attempt: dict[int, list[TransportError]] = {}
    for error in transport:
        if (r := exceptions.said(error)) is not None and not r.handled:
            by_attempt.setdefault(error.attempt, []).append(error)
    for attempt, told in by_attempt.items():
        seen = {*activity.ranks(attempt), *exceptions.ranks_ended(attempt)}
        waited = [e for e in told if e.kind == "timeout"]
        closed = {e.origin.rank for e in told if e.kind == "closed"} - {e.origin.rank for e in waited}
        complain = {e.origin.rank for e in told}
        whole = None not in complain and seen <= complain
        if waited and closed and whole and not any(e.origin.time for e in told):
            first = min(waited, key=lambda e: e.seq)
            found[attempt] = f"gloo-wait@{first.anchor.input}:{first.seq}"
    return found


def _gloo(error: TransportError, exceptions: Exceptions, follows: str) -> Finding | None:
    row = exceptions.said(error)
    if row is None or error.kind != "closed":
        return None
    elsewhere = "" if error.peer.startswith(("127.", "::1", "rank")) else error.peer
    who = error.peer if error.peer.startswith("rank") else f"a peer {elsewhere}".rstrip()
    return from_exception(
        row,
        f"The connection to {who} was lost ({error.why.rstrip(': ')}): that process is gone; this rank only noticed.",
        facts={"error": error.why},
        confidence=Confidence.POSSIBLE,
        fixes=_peer_fixes(elsewhere),
        shows=frozenset({PROCESS_DIED, PEER_ABSENT}),
        follows=follows,
    )


@rule("CRS018", "transport-error", Severity.FATAL, aliases=("X18", "nccl-error"))
def check(
    errors: NcclErrors,
    transport: TransportErrors,
    exceptions: Exceptions,
    activity: Activity,
    settings: Settings,
    groups: WorkerGroups,
) -> Iterator[Finding]:
    """One finding a kind and attempt for NCCL, one an exception for gloo."""
    by_kind: dict[tuple[int, str], list[NcclError]] = {}
    for e in errors:
        by_kind.setdefault((e.attempt, e.kind), []).append(e)
    fixes = ending(settings, groups) if by_kind else ()
    for attempt in sorted({attempt for attempt, _ in by_kind}):
        for kind in _SAYS:
            if found := by_kind.get((attempt, kind)):
                duplicate = kind == "usage" and (attempt, "duplicate-gpu") in by_kind
                yield _nccl(kind, found, exceptions, f"duplicate-gpu@{attempt}" if duplicate else "", fixes)
    waits = _first_waits(transport, exceptions, activity)
    for error in transport:
        if (finding := _gloo(error, exceptions, waits.get(error.attempt, ""))) is not None:
            yield finding
