"""Which finding explains which, and the roles that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from necropsy.conditions import PEER_ABSENT, PROCESS_DIED, SHARED
from necropsy.correlate.merge import RELATED_MAX
from necropsy.correlate.order import comparable, precedes, seconds_between
from necropsy.finding import Finding, Related, Role, Severity

# A peer notices a death at once, while the dying process may still be printing: its own traceback can stand
# behind the peers' complaints, within this many seconds.
LATE_TRACEBACK: Final = 60.0


def explained(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with roles; `findings` in order of time."""
    # Only an end, or something that leaves a condition, explains others; of thousands of warnings none may.
    able = [i for i, c in enumerate(findings) if c.severity is Severity.FATAL or c.leaves]
    events = {c.event: i for i, c in reversed(list(enumerate(findings)))}
    direct = {i: c for i in range(len(findings)) if (c := _cause(i, findings, able, events)) is not None}
    roots = {i: _root(i, direct) for i in direct}
    out = list(findings)
    for i, root in roots.items():
        f = findings[i]
        if root == i:
            continue
        out[i] = replace(out[i], role=Role.CASCADE if f.severity >= Severity.ERROR else Role.SYMPTOM)
        if f.severity >= Severity.ERROR:
            out[root] = _strengthened(out[root], f)
    # Last, because a cause may have taken its place from its consequence, and the fingerprint is of the place.
    return [
        replace(f, explained_by=out[roots[i]].fingerprint) if i in roots and roots[i] != i else f
        for i, f in enumerate(out)
    ]


def _root(index: int, direct: dict[int, int]) -> int:
    """Follows causes to their end; a circle ends where it was entered first."""
    seen = [index]
    while seen[-1] in direct:
        after = direct[seen[-1]]
        if after in seen:
            return min(seen[seen.index(after) :])
        seen.append(after)
    return seen[-1]


def _cause(index: int, findings: Sequence[Finding], able: Sequence[int], events: Mapping[str, int]) -> int | None:
    """The index of the earliest finding that explains this one, or None; `able` are those that may."""
    f = findings[index]
    if f.follows:
        return events.get(f.follows)
    if f.severity is Severity.NOTE:
        return None
    return next((i for i in able if i != index and _explains(findings[i], f)), None)


def _explains(c: Finding, f: Finding) -> bool:
    if not set(c.attempts) & set(f.attempts):
        return False
    if f.confirms and c.shows & left_by(f):
        return False  # the other way round: what `f` confirms had its signs before
    if _witness(c, f):
        return False
    before = precedes(c, f)
    same = bool(set(c.processes) & set(f.processes)) and (c.anchor.input == f.anchor.input or c.process != "")
    if same and before and c.severity is Severity.FATAL:
        return True
    left = left_by(c) & f.shows
    near = same or (c.anchor.input == f.anchor.input and ("" in c.processes or "" in f.processes))
    if not left or not (near or left & SHARED):
        return False
    if before or (c.confirms and c.rule != f.rule):
        return True
    # A peer's death comes before it is noticed, wherever its own words stand; an unknown order lets a cause that
    # is no sign of somebody else's failure explain one that is.
    own_failure = c.severity is Severity.FATAL and (not c.shows & {PROCESS_DIED, PEER_ABSENT} or _names_suspects(c))
    if before is None or (_names_suspects(f) and set(c.ranks) & set(f.ranks) and not comparable(c, f)):
        return own_failure
    late = seconds_between(f, c)
    return own_failure and PROCESS_DIED in f.shows and not same and (late is None or late <= LATE_TRACEBACK)


def _witness(c: Finding, f: Finding) -> bool:
    """Whether `c` only tells of somebody else's end, while `f` already names who did not take part."""
    return _names_suspects(f) and PROCESS_DIED in c.shows and not set(c.ranks) & set(f.ranks)


def _names_suspects(f: Finding) -> bool:
    """Whether `f` is about a wait that somebody did not join, and knows who."""
    return PEER_ABSENT in f.shows and PROCESS_DIED not in f.shows and bool(f.ranks)


def left_by(f: Finding) -> frozenset[str]:
    """What a finding leaves; a process that is gone takes no part in collectives either."""
    return f.leaves | {PEER_ABSENT} if PROCESS_DIED in f.leaves else f.leaves


def _strengthened(cause: Finding, effect: Finding) -> Finding:
    """A cause weighs at least what it led to, and quotes it; without a place it takes the one where it surfaced."""
    related = cause.related
    if len(related) < RELATED_MAX and effect.rule != cause.rule:
        related = (*related, Related(effect.anchor, f"led to {effect.rule} {effect.name}"))
    code = cause.code or tuple(replace(p, exactness="function", how="where it surfaced") for p in effect.code)
    return replace(cause, severity=max(cause.severity, effect.severity), role=Role.ROOT, related=related, code=code)
