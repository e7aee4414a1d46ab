"""Who waits for whom, to the ranks at which the waiting began, each with the reason.

In order: GPUs that did not do what others saw them do; ranks that are awaited and wait
for nothing themselves; ranks that stopped where others of the same program, waiting for
the same, went on. If that does not explain all waiting, what is left is followed to its
end: members without a dump, ranks that wait for each other, or a collective that all
have entered and nobody completes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from necropsy.evidence._flight_jobs import Job
from necropsy.evidence._flight_state import RankState, has_started
from necropsy.evidence._flight_waits import Wait, Waits, together, waits_of, went_past

HOST: Final = "host"  # did not enter what others entered, and waits for nothing
GPU: Final = "gpu"  # entered, but its GPU does not report what the others' do
NO_DUMP: Final = "no dump"  # the others wait for it, and it left no dump
CIRCLE: Final = "circle"  # wait for each other
STUCK: Final = "stuck"  # all entered, nobody completes: one of them, not known which
INCOMPLETE: Final = "incomplete"  # too few dumps to say for whom these wait


class Blame(Struct, frozen=True):
    """Ranks at which the waiting began. `waits` show it, the most telling first."""

    kind: str
    ranks: tuple[int, ...]
    waits: tuple[Wait, ...]


class Verdict(Struct, frozen=True):
    """What came of a job: who is to blame, and all waits."""

    found: Waits
    blames: tuple[Blame, ...]


def verdict(job: Job, broken: dict[int, int] | None = None) -> Verdict:
    """The ranks at which waiting began. `broken` as in `waits_of`."""
    found = waits_of(job, broken)
    gpu = dict(_stopped_gpus(found))
    host = dict(_absent_hosts(found, gpu))
    explained = _explained(found, frozenset(gpu) | frozenset(host) | _in_broken(found, broken or {}))
    blames = [*_blames(GPU, gpu), *_blames(HOST, host)]
    left = [r for r, s in found.states.items() if not s.idle and r not in explained]
    if left:
        blames += _rest(found, frozenset(left), bool(blames))
    return Verdict(found, tuple(blames))


def _blames(kind: str, culprits: dict[int, list[Wait]]) -> list[Blame]:
    if not culprits:
        return []
    waits = list({id(w): w for listed in culprits.values() for w in listed}.values())
    return [Blame(kind, tuple(sorted(culprits)), tuple(sorted(waits, key=_telling)))]


def _telling(wait: Wait) -> tuple[bool, int, int]:
    """Collectives before sends, then those in which most ranks wait."""
    return (wait.number < 0, -len(wait.waiting), wait.group)


# -- certain signs ------------------------------------------------------------------


def _stopped_gpus(found: Waits) -> Iterator[tuple[int, list[Wait]]]:
    """Ranks whose work others completed together with them, and those that did not begin what all others began."""
    for rank, state in found.states.items():
        signs = []
        for group, reached in state.reached.items():
            if reached.out and (wait := _completed_elsewhere(found, rank, group) or _not_begun(found, rank, group)):
                signs.append(wait)
        if signs:
            yield rank, signs


def _completed_elsewhere(found: Waits, rank: int, group: int) -> Wait | None:
    """The oldest outstanding collective of a rank, if another member completed it."""
    number, entry = next(iter(found.states[rank].reached[group].out.items()))
    op = found.states[rank].call(entry).op
    members = found.job.groups[group].members
    # A frozen process without a dump can leave a collective half done: complete here, not there.
    if not together(op) or any(m not in found.states for m in members):
        return None
    done = [m for m in members if m != rank and _completed(found, m, group, number, rank, entry)]
    open_ = [m for m in members if number in _out(found.states[m], group)]
    # Aborting a communicator completes its work: a rank with nothing outstanding may have done that.
    if not done or (len(open_) >= len(done) and all(found.states[m].idle for m in done)):
        return None
    return Wait(group, number, op, {m: _out(found.states[m], group)[number] for m in open_})


def _completed(found: Waits, rank: int, group: int, number: int, other: int, entry: int) -> bool:
    """Whether a rank's dump shows that it completed a collective, which `entry` of another rank is, too."""
    state = found.states[rank]
    reached = state.reached.get(group)
    if reached is None:
        return went_past(found, rank, other, entry)
    if number > reached.last or number in reached.out:
        return False
    if found.job.active_only:
        return bool(reached.out) and min(reached.out) > number
    return number >= reached.first


def _not_begun(found: Waits, rank: int, group: int) -> Wait | None:
    """The oldest outstanding work of a rank, if the GPUs of other members have begun with it and its own has not."""
    state = found.states[rank]
    number, entry = next(iter(state.reached[group].out.items()))
    op = state.call(entry).op
    if entry != state.oldest or has_started(state.dump.entries.state[entry]) or not together(op):
        return None
    members = [m for m in found.job.groups[group].members if m in found.states]
    entries = {m: _out(found.states[m], group).get(number) for m in members}
    begun = [m for m, e in entries.items() if e is not None and has_started(found.states[m].dump.entries.state[e])]
    if not begun or any(e is None for e in entries.values()):
        return None
    return Wait(group, number, op, {m: e for m, e in entries.items() if e is not None})


def _out(state: RankState, group: int) -> dict[int, int]:
    reached = state.reached.get(group)
    return reached.out if reached is not None else {}


def _absent_hosts(found: Waits, gpu: dict[int, list[Wait]]) -> Iterator[tuple[int, list[Wait]]]:
    """Awaited ranks whose program stopped by itself: idle ones, and those which others in their place passed."""
    # Most programs log on the first or last rank, which then waits for a value where no other rank does.
    ends = {min(found.states, default=0), max(found.states, default=0)}
    for rank, listed in found.missed.items():
        missed = [w for w in listed if w.waiting.keys() - gpu.keys()]  # a stopped GPU's rank waits for the past
        if rank in gpu or not missed:
            continue
        if found.states[rank].idle or (rank not in ends and any(_passed(found, rank, w) for w in missed)):
            yield rank, missed


def _passed(found: Waits, rank: int, wait: Wait) -> bool:
    """Whether kin of the absent rank entered this with everything outstanding that it has outstanding.

    Then what the rank waits for did not hold up the same program there. Only where most of
    the others agree to a step on how far the program runs: a full launch queue stops each
    rank somewhere else.
    """
    if wait.number < 0:
        return False
    reached = {r: found.states[r].reached[wait.group].last for r in wait.waiting}
    furthest, agreeing = Counter(reached.values()).most_common(1)[0]
    if 2 * agreeing <= len(reached):
        return False
    own = _keys(found.states[rank])
    return any(
        last == furthest and _kin(found, rank, r) and _keys(found.states[r], len(own)) == own
        for r, last in reached.items()
    )


def _kin(found: Waits, a: int, b: int) -> bool:
    """Whether two ranks have collectives together, other than those of all ranks, in which pipeline stages meet too."""
    groups, world = found.job.groups, len(found.job.world)
    used = found.states[a].reached.keys() | found.states[b].reached.keys()
    inner = [g for g in used if len(groups[g].members) < world]
    return not inner or any(a in groups[g].members and b in groups[g].members for g in inner)


def _keys(state: RankState, most: int = 1 << 30) -> list[tuple[int, int, int, int, str]]:
    """The oldest outstanding, in terms that ranks of one program share: place in it, own number of the group, ..."""
    e = state.dump.entries
    oldest = islice(sorted(state.outstanding()), most)
    return [(e.record[i], e.local_group[i], e.p2p[i], e.sequence[i], state.call(i).op) for i in oldest]


# -- what remains -------------------------------------------------------------------


def _in_broken(found: Waits, broken: dict[int, int]) -> frozenset[int]:
    """Ranks that wait in collectives which do not match."""
    return frozenset(r for g, n in broken.items() for r, s in found.states.items() if any(k >= n for k in _out(s, g)))


def _explained(found: Waits, causes: frozenset[int]) -> frozenset[int]:
    """The causes, and all ranks that wait for one of them, directly or through others."""
    explained = set(causes)
    awaited: dict[int, list[Wait]] = {}
    for w in found.waits:
        for r in w.absent | w.behind:
            awaited.setdefault(r, []).append(w)
    queue = list(causes)
    while queue:
        for w in awaited.get(queue.pop(), ()):
            new = w.waiting.keys() - explained
            explained |= new
            queue += new
    return frozenset(explained)


def _rest(found: Waits, left: frozenset[int], known: bool) -> Iterator[Blame]:
    """Blames for the waiting of `left`; `known`: others have been blamed, so that only strong signs count."""
    waits = [w for w in found.waits if w.waiting.keys() & left]
    without = _without_dump(found, waits)
    if len(found.job.without_dump) > len(found.states):
        if without and not known:
            yield Blame(INCOMPLETE, (), tuple(sorted(_naming(waits, without), key=_telling)))
        return
    if without:
        yield Blame(NO_DUMP, tuple(sorted(without)), tuple(sorted(_naming(waits, without), key=_telling)))
        left -= _explained(found, without | {r for w in _naming(waits, without) for r in w.waiting})
        waits = [w for w in waits if w.waiting.keys() & left]
    if not waits:
        return
    fixed = {r for w in waits if _stands_still(w) for r in w.waiting}
    for circle in _ends(waits, left, fixed):
        inside = [w for w in waits if w.waiting.keys() & circle and w.absent & circle]
        if len(circle) > 1 and inside and all(w.sure for w in inside):
            yield Blame(CIRCLE, tuple(sorted(circle)), tuple(sorted(inside, key=_telling)))
        elif len(circle) == 1 and not known and (missed := [w for r in circle for w in found.missed.get(r, ())]):
            yield Blame(HOST, tuple(circle), tuple(sorted(missed, key=_telling)))
    if not known:
        yield from (Blame(STUCK, tuple(sorted(w.waiting)), (w,)) for w in waits if _stands_still(w))


def _stands_still(wait: Wait) -> bool:
    """Whether all have entered it, have nothing older outstanding, and yet nobody completes."""
    return wait.stuck and not wait.unknown and len(wait.waiting) > 1


def _naming(waits: Iterable[Wait], ranks: frozenset[int]) -> list[Wait]:
    return [w for w in waits if w.stuck and w.unknown & ranks]


def _without_dump(found: Waits, waits: Iterable[Wait]) -> frozenset[int]:
    """Ranks without a dump that explain why those wait who have nobody else to wait for.

    All, where they are few; else the fewest that explain it.
    """
    ends = [w.unknown for w in waits if w.stuck and w.unknown and _oldest_of_some(found, w)]
    without = found.job.without_dump
    if any(ends) and len(without) <= len(found.states) / 3:
        return without  # nearly all ranks left a dump: those that did not are evidence by themselves
    picked = {r for unknown in ends if len(unknown) == 1 for r in unknown}
    for unknown in ends:
        if not unknown & picked:
            picked |= unknown
    return frozenset(picked)


def _oldest_of_some(found: Waits, wait: Wait) -> bool:
    return any(found.states[r].oldest == e for r, e in wait.waiting.items())


def _ends(waits: Iterable[Wait], left: frozenset[int], fixed: set[int]) -> list[frozenset[int]]:
    """Sets of ranks that wait for each other and for nobody else, without a way to one of `fixed`."""
    edges: dict[int, set[int]] = {r: set() for r in left}
    for w in waits:
        for r in w.waiting.keys() & left:
            edges[r] |= (w.absent | w.behind) & left - {r}
    reach = {r: _reach(edges, r) for r in left}
    found = {frozenset(x for x in reach[r] | {r} if r in reach[x] or x == r) for r in left if not reach[r] & fixed}
    return [c for c in found if not c & fixed and all(edges[r] <= c for r in c)]


def _reach(edges: dict[int, set[int]], start: int) -> set[int]:
    seen: set[int] = set()
    queue = [start]
    while queue:
        for r in edges[queue.pop()] - seen:
            seen.add(r)
            queue.append(r)
    return seen
