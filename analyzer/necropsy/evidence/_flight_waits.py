"""How far each rank of a job came, to who waits for whom.

A rank with an outstanding collective waits for the members of its group that have not
entered it; one with a pending receive waits for the other end's send, and the reverse.
Where everybody has entered and nobody completed, it is the GPUs that wait: for a member
whose older work is outstanding, since work starts in order. What remains when nobody
known can be waited for, waits for the members without a dump.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from necropsy.evidence._flight_jobs import Job
from necropsy.evidence._flight_state import Pending, RankState, states_of

# What no member can finish before every member has begun; of others (broadcast, reduce, send) some can.
_TOGETHER: Final = re.compile(r"all(?!_?gather_?v)|reduce_scatter|barrier", re.IGNORECASE)


class Wait(Struct):
    """Something outstanding. `number`: sequence number of a collective, -1 for a send or receive.

    `waiting` are the ranks that wait in it, with their entries; `absent` those which
    others wait for to enter, `behind` those whose GPU is not there yet, `unknown` the
    members without a dump, of which nothing can be said. Not `sure`: what is taken to be
    absent may have completed, since it was not seen.
    """

    group: int
    number: int
    op: str
    waiting: dict[int, int]
    absent: frozenset[int] = frozenset()
    behind: frozenset[int] = frozenset()
    unknown: frozenset[int] = frozenset()
    together: bool = True
    sure: bool = True

    @property
    def stuck(self) -> bool:
        """Everybody known is there, and yet it does not end."""
        return not self.absent and not self.behind


class Waits(Struct):
    """All waits of a job. `missed[rank]` are those for which `rank` is absent, the earliest number of a group first."""

    job: Job
    states: dict[int, RankState]
    waits: list[Wait] = field(default_factory=list)
    missed: dict[int, list[Wait]] = field(default_factory=dict)

    _by_rank: dict[int, list[Wait]] = field(default_factory=dict)

    def of(self, rank: int) -> list[Wait]:
        """The waits in which a rank waits."""
        return self._by_rank.get(rank, [])

    def add(self, wait: Wait) -> None:
        """Note a wait."""
        self.waits.append(wait)
        for rank in wait.waiting:
            self._by_rank.setdefault(rank, []).append(wait)
        for rank in wait.absent:
            self.missed.setdefault(rank, []).append(wait)


def waits_of(job: Job, broken: dict[int, int] | None = None) -> Waits:
    """Who waits for whom. `broken`: groups in which collectives from a number on do not match (another cause)."""
    found = Waits(job, states_of(job))
    for group in range(len(job.groups)):
        if not comparable(job, group):
            continue
        for wait in _in_group(found, group, (broken or {}).get(group)):
            found.add(wait)
    for wait in _sends(found):
        found.add(wait)
    return found


def together(op: str) -> bool:
    """Whether no member can complete such a collective before every member has entered it."""
    return bool(_TOGETHER.match(op.lstrip("_")))


def comparable(job: Job, group: int) -> bool:
    """Whether the numbers of a group's collectives mean the same on each rank.

    Before PyTorch 2.4 one counter counts collectives and sends, and ranks of a group send
    differently often; and a group without known members may be several groups.
    """
    if not job.groups[group].members:
        return False
    for rank, dump in job.dumps.items():
        if not dump.numbered and group in job.ids[rank]:
            own = {i for i, g in enumerate(job.ids[rank]) if g == group}
            if any(g in own and p >= 0 for g, p in zip(dump.entries.group, dump.entries.p2p, strict=True)):
                return False
    return True


# -- collectives ------------------------------------------------------------------


def _in_group(found: Waits, group: int, broken: int | None) -> Iterator[Wait]:
    """The waits in one group: at the oldest outstanding number, and wherever further members are absent."""
    states, members = found.states, found.job.groups[group].members
    inside = {r: s.reached[group] for r, s in states.items() if group in s.reached}
    numbers = {n for r in inside.values() for n in r.out}
    if not numbers:
        return
    unknown = frozenset(m for m in members if m not in states)
    # A member that came to `last` is absent from the next number on: more numbers than those tell nothing new.
    ordered = sorted(numbers)
    steps = {ordered[0]} | {next(iter(r.out)) for r in inside.values() if r.out}
    steps |= {ordered[i] for last in {r.last for r in inside.values()} if (i := bisect(ordered, last)) < len(ordered)}
    for number in sorted(steps):
        if broken is not None and number >= broken:
            return
        waiting = {r: reached.out[number] for r, reached in inside.items() if number in reached.out}
        op = states[next(iter(waiting))].call(next(iter(waiting.values()))).op
        first = any(states[r].oldest == e for r, e in waiting.items())
        if not together(op) and not first:
            continue  # a root may have completed it, and these wait for older work anyway
        absent = frozenset(m for m in members if m in states and _entered(found, m, group, number, waiting) is False)
        behind = frozenset(r for r, e in waiting.items() if 0 <= states[r].oldest < e) if not absent else frozenset()
        sure = not found.job.active_only or absent <= inside.keys()
        yield Wait(group, number, op, waiting, absent, behind, unknown, together(op), sure)


def _entered(found: Waits, rank: int, group: int, number: int, waiting: dict[int, int]) -> bool | None:
    """Whether a rank has entered a collective; None where its window or dump does not tell."""
    state = found.states[rank]
    reached = state.reached.get(group)
    if reached is not None and number <= reached.last:
        return True
    if not state.dump.whole:
        return None  # the newest entries are those that a cut dump lacks
    if reached is None and any(went_past(found, rank, w, e) for w, e in waiting.items()):
        return True
    return None if reached is None and state.blind else False


def went_past(found: Waits, rank: int, other: int, entry: int) -> bool:
    """Whether a rank of which only active entries were dumped has newer ones than `entry` of another rank has.

    Then it has completed that one. Holds for ranks that run the same program, which shows in
    another collective that both have outstanding under the same record number.
    """
    a, b = found.states[rank], found.states[other]
    records, theirs = a.dump.entries.record, b.dump.entries.record
    if not found.job.active_only or not len(records) or records[-1] <= theirs[entry]:
        return False
    return any(
        number in b.reached[g].out and records[i] == theirs[b.reached[g].out[number]]
        for g, reached in a.reached.items()
        if g in b.reached
        for number, i in reached.out.items()
    )


# -- sends and receives -------------------------------------------------------------


def _sends(found: Waits) -> Iterator[Wait]:
    """The waits of each pair of ranks, for one direction at a time."""
    pairs = {
        (group, rank, peer) if sends else (group, peer, rank)
        for rank, state in found.states.items()
        for (group, peer, sends), pending in state.pending.items()
        if pending.out
    }
    for group, source, target in sorted(pairs):
        yield from _pair(found, group, source, target)


def _pair(found: Waits, group: int, source: int, target: int) -> Iterator[Wait]:
    sent = _pending(found, source, (group, target, True))
    received = _pending(found, target, (group, source, False))
    if sent is None or received is None:
        rank, known, op = (target, received, "recv") if sent is None else (source, sent, "send")
        if known is not None and known.out:
            other = source if sent is None else target
            yield Wait(group, -1, op, {rank: known.out[0]}, unknown=frozenset({other}), together=False)
        return
    more = _surplus(found, source, target, sent, received)
    if more > 0 and sent.out:
        yield _one_sided(found, group, "send", source, sent.out[-min(more, len(sent.out))], target)
    if more < 0 and received.out:
        yield _one_sided(found, group, "recv", target, received.out[-min(-more, len(received.out))], source)
    if sent.out and received.out:
        ends = {source: sent.out[0], target: received.out[0]}  # as it seems, the two ends of one message
        behind = frozenset(r for r, e in ends.items() if 0 <= found.states[r].oldest < e)
        yield Wait(group, -1, "send", ends, behind=behind, together=False)


def _one_sided(found: Waits, group: int, op: str, rank: int, entry: int, other: int) -> Wait:
    """What one end has posted and the other has not."""
    absent = frozenset({other} if found.states[other].dump.whole else ())
    return Wait(group, -1, op, {rank: entry}, absent, together=False, sure=_counted(found, rank, other))


def _pending(found: Waits, rank: int, key: tuple[int, int, bool]) -> Pending | None:
    """A rank's sends or receives; None without a dump."""
    state = found.states.get(rank)
    return None if state is None else state.pending.get(key, Pending())


def _surplus(found: Waits, source: int, target: int, sent: Pending, received: Pending) -> int:
    """By how many the sends exceed the receives.

    Counted from the first entry on where both windows reach back to it. Otherwise only what
    is outstanding can be compared: what is complete on one end was posted on the other.
    """
    if _counted(found, source, target):
        return sent.count - received.count
    return len(sent.out) - len(received.out)


def _counted(found: Waits, *ranks: int) -> bool:
    """Whether the dumps hold all that these ranks ever sent and received."""
    return all(found.states[r].from_start for r in ranks) and not found.job.active_only
