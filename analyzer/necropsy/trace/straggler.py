"""Who comes last to collectives, how long the others wait for it, and what it does meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy.finding import Place
from necropsy.trace.claim import key_of
from necropsy.trace.collectives import collectives_of, exposed
from necropsy.trace.fleet import Fleet
from necropsy.trace.intervals import Cover
from necropsy.trace.nesting import NONE
from necropsy.trace.partition import BUCKETS, covers_of
from necropsy.trace.profile import Profile
from necropsy.trace.rank import Rows

SUSPECTS: Final = 8  # ranks that are looked at: those for which the others wait longest
OF_CAUSE: Final = 0.3  # of the extra time: functions that hold less of it are not named
DISTINCT: Final = 2.0  # times what other ranks spend there: less is the same work on a slower machine
SLOWER_HOST: Final = ("dispatching", "Python", "operators")
COUNTS: Final = 0.01  # of a step: waits below it say nothing of that step

# Bucket of the late rank's time before it arrives -> what a sentence says it does.
DOING: Final = {
    "compute": "computes",
    "copies": "copies between host and device",
    "data loading": "waits for its DataLoader",
    "compiling": "compiles",
    "saving": "writes a checkpoint",
    "collecting garbage": "collects garbage",
    "allocating": "takes memory from the driver",
    "synchronising": "waits for its own device",
    "dispatching": "launches operators",
    "Python": "runs Python code between operators",
    "operators": "runs operators",
}


class Late(Struct, frozen=True):
    """A rank for which the others wait.

    `waited` is the mean of the others' ns in all judged steps in which a collective was
    under way, nothing computed and this rank had not come; `steps` the part of the steps
    in which that was more than 1 % (the median over the others); `meetings` and `of` count collectives.
    """

    profile: Profile
    waited: int
    share: float
    steps: float
    meetings: int
    of: int


class Cause(Struct, frozen=True):
    """What the late rank does more of than the others: a bucket, its ns in all steps, functions.

    `coverage` is the bucket's part of all extra time. Not `distinct`: the same work, slower.
    """

    bucket: str
    ns: int
    coverage: float
    places: tuple[Place, ...]
    distinct: bool


def latecomers(fleet: Fleet) -> list[Late]:
    """The ranks for which others wait, longest first; none where clocks cannot be compared."""
    if not fleet.trusted:
        return []
    suspects = np.argsort(-_lateness(fleet), kind="stable")[:SUSPECTS]
    found = [_late(fleet, int(s)) for s in suspects]
    return sorted((x for x in found if x is not None and x.waited > 0), key=lambda x: -x.waited)


def _lateness(fleet: Fleet) -> NDArray[np.float64]:
    """For each rank, the sum of the ns by which it came after the one before it."""
    found = np.zeros(len(fleet.profiles))
    for m in fleet.meetings:
        ordered = np.sort(m.start, axis=1)
        np.add.at(found, np.array(m.members)[m.last], (ordered[:, -1] - ordered[:, -2]).astype(np.float64))
    return found


def _late(fleet: Fleet, suspect: int) -> Late | None:
    steps: list[NDArray[np.bool_]] = []
    waited: list[float] = []
    share: list[float] = []
    for i, p in enumerate(fleet.profiles):
        if i == suspect or not any(i in m.members and suspect in m.members for m in fleet.meetings):
            continue
        ns = waits_for(fleet, i, suspect).within(p.steps.start, p.steps.end)
        steps.append(ns > np.maximum(COUNTS * p.steps.length, fleet.residual or 0))
        waited.append(float(ns.sum()))
        share.append(p.share(int(ns.sum())))
    if not waited:
        return None
    met = [m for m in fleet.meetings if suspect in m.members]
    last = sum(int((m.last == m.members.index(suspect)).sum()) for m in met)
    recurs = float(np.median([s.mean() for s in steps if len(s)] or [0.0]))
    p = fleet.profiles[suspect]
    return Late(p, int(np.mean(waited)), float(np.mean(share)), recurs, last, sum(len(m) for m in met))


def waits_for(fleet: Fleet, waiting: int, suspect: int) -> Cover:
    """When one rank was in a collective, did not compute, and the other was the last to come (its own clock)."""
    starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for m in fleet.meetings:
        if waiting not in m.members or suspect not in m.members:
            continue
        mine, last = m.members.index(waiting), m.members.index(suspect)
        rows = m.last == last
        starts.append(m.start[rows, mine] - fleet.offset[waiting])
        ends.append(np.minimum(m.start[rows, last], m.end[rows, mine]) - fleet.offset[waiting])
    return Cover.of(np.concatenate(starts), np.concatenate(ends)).overlap(exposed(fleet.profiles[waiting]))


# -- why ----------------------------------------------------------------------


def cause_of(fleet: Fleet, late: Profile) -> Cause | None:
    """What a rank does more of than the others in the time of its steps in which it waits for nobody, or None.

    Time just before a collective would not do: a rank that is ahead has computed what comes
    before its next one while it waited in the last.
    """
    others = [p for p in fleet.profiles if p is not late and len(collectives_of(p))][:SUSPECTS]
    window = _working_time(late)
    rest = [(p, _working_time(p)) for p in others]
    mine = _spent(late, window)
    theirs = [_spent(p, w) for p, w in rest]
    return excess(late, window, rest, mine, {b: float(np.mean([t.get(b, 0) for t in theirs])) for b in mine})


def _working_time(p: Profile) -> Cover:
    return Cover.of(p.steps.start, p.steps.end).minus(exposed(p))


def excess(
    late: Profile,
    window: Cover,
    rest: Sequence[tuple[Profile, Cover]],
    mine: dict[str, float],
    theirs: dict[str, float],
) -> Cause | None:
    """The bucket that explains most of a rank's extra time, and the functions in which it is spent."""
    more = {b: ns - theirs[b] for b, ns in mine.items()}
    whole = sum(ns for ns in more.values() if ns > 0)
    bucket = max(more, key=lambda b: more[b])
    if whole <= 0 or bucket not in DOING:
        return None
    spent = functions(late, window, bucket)
    usual = _usual([functions(p, w, bucket) for p, w in rest])
    ranked = sorted(spent, key=lambda k: -spent[k][1])
    named = [k for k in ranked if spent[k][1] - usual.get(k, 0) >= OF_CAUSE * more[bucket]]
    if bucket in SLOWER_HOST:
        # The buckets count the host's time only where the device was idle; whether a rank does more shows in all of it.
        spent, usual = _host_time(late), _usual([_host_time(p) for p, _ in rest])
    named = [k for k in named if k in spent and spent[k][1] >= DISTINCT * usual.get(k, 0)]
    places = [p for k in named[:2] if (p := spent[k][0]) is not None]
    untold = not len(late.rank.frames) and mine[bucket] >= DISTINCT * theirs[bucket]
    distinct = bool(places) or untold or bucket not in SLOWER_HOST
    return Cause(bucket, int(more[bucket]), more[bucket] / whole, tuple(places), distinct)


def _usual(each: list[Spent]) -> dict[str, float]:
    """Mean ns of each function over ranks."""
    keys = set().union(*each) if each else set()
    return {k: float(np.mean([e[k][1] if k in e else 0.0 for e in each])) for k in keys}


def _host_time(p: Profile) -> Spent:
    """The user's functions on the main thread in the judged steps, whatever the device did, but waits for it."""
    time = Cover.of(p.steps.start, p.steps.end).minus(p.activity.waiting)
    return _own_time(p, time.minus(exposed(p)) if p.cpu_only else time)


def _spent(p: Profile, window: Cover) -> dict[str, float]:
    """Nanoseconds by bucket within a set of time; `Python` is what no other holds."""
    found = {b: float(c.overlap(window).total) for b, c in told_covers(p).items()}
    found["Python"] = window.total - sum(found.values())
    return found


def told_covers(p: Profile) -> dict[str, Cover]:
    """The partition's sets of time; of programs on the CPU, operators are the computing."""
    if "covers" not in p.memo:
        covers = covers_of(p.rank, p.activity)
        if p.cpu_only:
            covers["operators"] = covers.pop("dispatching")
        p.memo["covers"] = covers
    found: dict[str, Cover] = p.memo["covers"]
    return found


Spent = dict[str, tuple[Place | None, float]]


def functions(p: Profile, window: Cover, bucket: str) -> Spent:
    """Function (or marked line) -> its place and its ns of a bucket within a set of time."""
    if bucket == "compute":
        starts = p.rank.kernels["start"]
        sites = p.work_sites(p.rank.kernels, ~p.rank.collective & window.holds(starts))
        return {key_of(s.place): (s.place, float(s.ns)) for s in sites if s.place is not None}
    covers = told_covers(p)
    if bucket in covers:
        return _own_time(p, covers[bucket].overlap(window))
    taken = Cover.empty().union(*(covers[b] for b in (*BUCKETS, "operators") if b in covers))
    return _own_time(p, window.minus(taken))


def _own_time(p: Profile, time: Cover) -> Spent:
    """Time on the main thread by the user's innermost function."""
    r = p.rank
    if not len(r.frames):
        return {}
    rows = np.flatnonzero((r.frames["thread"] == r.main_thread) & (r.user_frame == np.arange(len(r.frames))))
    within = np.zeros(len(r.frames), np.int64)
    within[rows] = time.within(r.frames["start"][rows], r.frames["end"][rows])
    own = within.copy()
    parent = r.frame_nest.parent[rows]
    outer = np.where(parent >= 0, r.user_frame[np.maximum(parent, 0)], NONE)
    np.subtract.at(own, outer[outer >= 0], within[rows[outer >= 0]])
    found: Spent = {}
    for site in p.sites(rows, rows, own[rows]):
        if site.place is not None and site.ns > 0:
            found[key_of(site.place)] = (site.place, float(site.ns))
    return found


def own_work(p: Profile) -> Rows:
    """Nanoseconds of each judged step in which the rank did not wait for others."""
    return p.steps.length - exposed(p).within(p.steps.start, p.steps.end)


def accused(fleet: Fleet, share: float = 0.05, steps: float = 0.66, explained: float = 0.5) -> list[tuple[Late, Cause]]:
    """Latecomers in most steps whose own extra work accounts for the others' waiting; defaults are DST007's."""
    found = []
    for late in latecomers(fleet):
        if late.share < share or late.steps < steps or len(late.profile.steps) < 2:
            continue
        cause = cause_of(fleet, late.profile)
        if cause is not None and cause.ns >= explained * late.waited:
            found.append((late, cause))
    return found


# -- without clocks -----------------------------------------------------------


class Uneven(Struct, frozen=True):
    """The busiest rank of a job: by how many ns a step (`more`), its share of a step, and what it does more of."""

    profile: Profile
    more: float
    share: float
    steps: float
    busy: list[tuple[int, float]]
    cause: Cause


def uneven(fleet: Fleet, steps: float) -> Uneven | None:
    """The rank that works longest between collectives in most steps, or None."""
    profiles = [p for p in fleet.profiles if len(collectives_of(p))]
    numbers = set.intersection(*(set(p.steps.number.tolist()) for p in profiles)) if len(profiles) > 1 else set()
    if len(numbers) < 2 or any(p.all_steps.how != "annotation" for p in profiles):
        return None
    shared = sorted(numbers)
    table = np.array([[dict(zip(p.steps.number.tolist(), own_work(p).tolist(), strict=True))[n] for n in shared]
                      for p in profiles])  # fmt: skip
    busiest = int(np.bincount(table.argmax(axis=0), minlength=len(profiles)).argmax())
    others = np.delete(table, busiest, axis=0)
    recurs = float((table[busiest] > others.max(axis=0)).mean())
    more = float((table[busiest] - others.mean(axis=0)).mean())
    p = profiles[busiest]
    cause = cause_of(fleet, p)
    if cause is None or recurs < steps or more <= 0:
        return None
    busy = [(int(q.origin.rank or 0), float(row.mean())) for q, row in zip(profiles, table, strict=True)]
    return Uneven(p, more, more * len(p.steps) / p.judged, recurs, busy, cause)
