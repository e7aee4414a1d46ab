"""Traces of several ranks of one job: their clocks, and the collectives in which they met.

Ranks belong together if their recordings overlap in time, by the clocks of their hosts.
Collectives are matched within their group by torch's number (`Seq`), else by order; where
recordings begin at different ones, by the number of the step. No rank leaves an all-reduce
before the last has come, and all leave it together: that puts the clocks right, and shows
how far they can be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy.trace.collectives import BETWEEN_TWO, MEETINGS, Collectives, Signature, collectives_of
from necropsy.trace.profile import Profile
from necropsy.trace.rank import Rows

MIN_MATCHED: Final = 3  # meetings from which clocks are put right
AGREE: Final = 0.8  # part of matched collectives that must have the same name and size
TRUSTED: Final = 0.05  # of a step: ends that scatter more do not tell who came late
EARLY: Final = 0.1  # of the meetings that may seem to end before the last rank came
OVERLAP: Final = 0.5  # of the shorter recording
_SAME: Final = 50_000  # ns by which ends of one collective scatter at least (measured on NVLink)
_OTHER: Final = 0.5  # part in steps of other numbers; kernels lag behind the host's steps, so that some always are
_SHIFTS: Final = 256  # collectives by which recordings may begin apart


class Meeting(Struct, frozen=True):
    """The collectives of one group that several ranks recorded, in order.

    `members` are indexes of the fleet's profiles; `start` and `end` have a row a
    collective and a column a member, in ns of the reference's clock, corrected; `which`
    are indexes into each member's `Collectives`.
    """

    group: str
    members: tuple[int, ...]
    signatures: list[Signature]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    which: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def arrived(self) -> Rows:
        """When the last rank came."""
        return np.asarray(self.start.max(axis=1))

    @property
    def last(self) -> Rows:
        """Column of the rank that came last."""
        return np.asarray(self.start.argmax(axis=1))


class Fleet(Struct, frozen=True):
    """Profiles of different ranks that ran at the same time.

    `offset` is what to add to each trace's times for the reference's clock (ns);
    `residual` the ns by which matched ends still differ (the median), None where nothing
    was matched; `trusted` whether times can be compared across ranks.
    """

    profiles: list[Profile]
    offset: list[int]
    residual: int | None
    trusted: bool
    meetings: list[Meeting]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks, sorted."""
        return tuple(int(p.origin.rank or 0) for p in self.profiles)

    @property
    def step(self) -> float:
        """Nanoseconds of a step: the median over ranks of their medians."""
        return float(np.median([np.median(p.steps.length) if len(p.steps) else 0 for p in self.profiles]))


def fleets_of(profiles: Sequence[Profile]) -> list[Fleet]:
    """The jobs of which two ranks or more were recorded at the same time."""
    named = [p for p in profiles if p.origin.rank is not None and len(p.steps)]
    return [_fleet(group) for group in _together(named) if len(group) > 1]


def _together(profiles: list[Profile]) -> list[list[Profile]]:
    """Profiles by recording: one that overlaps none of a group's, or repeats a rank, begins another."""
    groups: list[list[Profile]] = []
    for p in sorted(profiles, key=lambda p: (_window(p)[0], p.seq)):
        for group in groups:
            if _overlaps(p, group[0]) and _same_job(p, group):
                group.append(p)
                break
        else:
            groups.append([p])
    return [sorted(g, key=lambda p: int(p.origin.rank or 0)) for g in groups]


def _window(p: Profile) -> tuple[int, int]:
    low, high = p.rank.window
    return low + p.trace.meta.base, high + p.trace.meta.base


def _overlaps(a: Profile, b: Profile) -> bool:
    (low, high), (first, last) = _window(a), _window(b)
    return min(high, last) - max(low, first) >= OVERLAP * min(high - low, last - first)


def _same_job(p: Profile, group: list[Profile]) -> bool:
    worlds = {q.trace.meta.world for q in (*group, p)} - {None}
    return len(worlds) < 2 and all(q.origin.rank != p.origin.rank for q in group)


# -- matching -----------------------------------------------------------------


def _fleet(profiles: list[Profile]) -> Fleet:
    base = [p.trace.meta.base - profiles[0].trace.meta.base for p in profiles]
    found = [collectives_of(p) for p in profiles]
    matched = [m for key in _groups(found) if (m := _matched(key, profiles, found, base)) is not None]
    fix, residual = _clocks(matched, len(profiles))
    offset = [b + f for b, f in zip(base, fix, strict=True)]
    meetings = [_moved(m, fix) for m in matched]
    fleet = Fleet(profiles, offset, residual, False, meetings)
    trusted = residual is not None and residual <= TRUSTED * fleet.step and _causal(meetings, residual)
    return Fleet(profiles, offset, residual, trusted, meetings)


def _groups(found: list[Collectives]) -> list[str]:
    """Groups that several ranks' collectives name, in order of the name."""
    named = [{s.group for s in c.signatures if s.name not in BETWEEN_TWO} for c in found]
    return sorted({g for g in set().union(*named) if sum(g in n for n in named) > 1})


def _of_group(c: Collectives, group: str) -> Rows:
    """Indexes of the group's collectives, in order."""
    table = np.array([s.group == group and s.name not in BETWEEN_TWO for s in c.signatures], np.bool_)
    return np.flatnonzero(table[c.what]) if len(c) else np.empty(0, np.int64)


def _matched(group: str, profiles: list[Profile], found: list[Collectives], base: list[int]) -> Meeting | None:
    """The group's collectives of all ranks that have them, or None where they cannot be paired."""
    rows = {i: _of_group(c, group) for i, c in enumerate(found)}
    members = [i for i, r in rows.items() if len(r)]
    first = members[0]
    at: dict[int, dict[int, int]] = {first: {n: n for n in range(len(rows[first]))}}
    for i in members[1:]:
        pairs = _paired(*((profiles[j], found[j], rows[j], base[j]) for j in (first, i)))
        if pairs is not None:
            at[i] = pairs
    members = sorted(at)
    common = sorted(set.intersection(*(set(a) for a in at.values())))
    if len(members) < 2 or not common:
        return None
    which = np.array([[rows[i][at[i][n]] for i in members] for n in common], np.int64)
    start, end = (
        np.stack([getattr(found[i], side)[which[:, k]] + base[i] for k, i in enumerate(members)], axis=1)
        for side in ("start", "end")
    )
    c = found[first]
    signatures = [c.signatures[int(c.what[w])] for w in which[:, members.index(first)]]
    return Meeting(group, tuple(members), signatures, start, end, which)


Side = tuple[Profile, Collectives, Rows, int]


def _paired(a: Side, b: Side) -> dict[int, int] | None:
    """Place in the one rank's order -> place in the other's."""
    (_, ca, ra, _), (_, cb, rb, _) = a, b
    if (ca.sequence[ra] >= 0).all() and (cb.sequence[rb] >= 0).all():
        shared, i, j = np.intersect1d(ca.sequence[ra], cb.sequence[rb], return_indices=True)
        if len(shared) == 0:
            return None
        return dict(zip(i.tolist(), j.tolist(), strict=True)) if _alike(a, b, i, j).mean() >= AGREE else None
    shift = _shift(a, b)
    if shift is None:
        return None
    i = np.arange(max(0, -shift), min(len(ra), len(rb) - shift))
    alike = _alike(a, b, i, i + shift)
    return {int(n): int(n) + shift for n in i[alike]}


def _shift(a: Side, b: Side) -> int | None:
    """By how many collectives the other's recording began earlier, or None where nothing fits.

    The right one has ends that differ by the same time throughout. Where several do (steps
    that last equally long, ends that scatter), the steps' numbers must agree, then times.
    """
    (pa, ca, ra, base_a), (pb, cb, rb, base_b) = a, b
    number_a, number_b = _step_numbers(pa, ca.start[ra]), _step_numbers(pb, cb.start[rb])
    most = min(_SHIFTS, max(len(ra), len(rb)) - 1)
    fits: list[tuple[float, bool, float, int]] = []  # scatter, whether in other steps, distance in time, shift
    for shift in sorted(range(-most, most + 1), key=abs):
        i = np.arange(max(0, -shift), min(len(ra), len(rb) - shift))
        if len(i) < 0.5 * min(len(ra), len(rb)) or _alike(a, b, i, i + shift).mean() < AGREE:
            continue
        apart = cb.end[rb][i + shift] + base_b - ca.end[ra][i] - base_a
        middle = float(np.median(apart))
        other = (
            float((number_a[i] != number_b[i + shift]).mean()) if number_a is not None and number_b is not None else 0
        )
        fits.append((float(np.median(np.abs(apart - middle))), other > _OTHER, abs(middle), shift))
    if not fits:
        return None
    near = max(_SAME, 5 * min(f[0] for f in fits))
    return min((f for f in fits if f[0] <= near), key=lambda f: f[1:3])[3]


def _step_numbers(p: Profile, times: Rows) -> Rows | None:
    """Number of the step in which each began, where steps are annotated."""
    if p.all_steps.how != "annotation":
        return None
    at = p.all_steps.of(times)
    return np.where(at >= 0, p.all_steps.number[np.maximum(at, 0)], -1)


def _alike(a: Side, b: Side, i: Rows, j: Rows) -> NDArray[np.bool_]:
    """Which pairs have one name and, where it must, one size."""
    table = np.array([[_same(x, y) for y in b[1].signatures] for x in a[1].signatures], np.bool_)
    found: NDArray[np.bool_] = table[a[1].what[a[2][i]], b[1].what[b[2][j]]]
    return found


def _same(x: Signature, y: Signature) -> bool:
    # Gathers and scatters may be uneven; a reduction or a broadcast is of one size.
    sizes = {x.elements_in, y.elements_in} - {-1} if x.name in ("all-reduce", "broadcast") else ()
    return x.name == y.name and len(sizes) < 2


# -- clocks -------------------------------------------------------------------


def _clocks(matched: list[Meeting], count: int) -> tuple[list[int], int | None]:
    """What to add to each rank's times besides their base, and what differs still."""
    fix: dict[int, float] = {0: 0.0}
    left: list[NDArray[np.float64]] = []
    for _ in range(count):
        before = len(fix)
        for m in matched:
            known = next((k for k, i in enumerate(m.members) if i in fix), None)
            if known is None:
                continue
            for k, i in enumerate(m.members):
                ends = _meeting_ends(m, known, k)
                if i not in fix and len(ends) >= MIN_MATCHED:
                    middle = float(np.median(ends))
                    fix[i] = fix[m.members[known]] - middle
                    left.append(np.abs(ends - middle))
        if len(fix) == before:
            break
    residual = int(np.median(np.concatenate(left))) if left and len(fix) == count else None
    return [int(fix.get(i, 0)) for i in range(count)], residual


def _meeting_ends(m: Meeting, a: int, b: int) -> NDArray[np.float64]:
    """By how much later the one rank left the group's meetings than the other."""
    some = np.array([s.name in MEETINGS for s in m.signatures], np.bool_)
    return np.asarray(m.end[some, b] - m.end[some, a], np.float64)


def _moved(m: Meeting, fix: list[int]) -> Meeting:
    by = np.array([fix[i] for i in m.members], np.int64)
    return Meeting(m.group, m.members, m.signatures, m.start + by, m.end + by, m.which)


def _causal(meetings: list[Meeting], residual: int) -> bool:
    """Whether nearly no meeting ended for one rank before the last had come."""
    early = total = 0
    for m in meetings:
        some = np.array([s.name in MEETINGS for s in m.signatures], np.bool_)
        early += int((m.end[some].min(axis=1) + 4 * residual < m.arrived[some]).sum())
        total += int(some.sum())
    return total > 0 and early <= EARLY * total


class Matches(Struct, frozen=True):
    """Of one rank's collectives: `number` that the match has on all ranks (-1: none), `waited` ns for the last rank.

    `offset` is what to add to its times for ns since 1970 by the reference's clock.
    """

    number: Rows
    waited: Rows
    offset: int


def matches(fleets: Sequence[Fleet]) -> dict[int, Matches]:
    """`id` of a profile -> the matches of its collectives."""
    found: dict[int, Matches] = {}
    before = 0
    for fleet in fleets:
        base = fleet.profiles[0].trace.meta.base
        for i, p in enumerate(fleet.profiles):
            length = len(collectives_of(p))
            m = Matches(np.full(length, -1), np.full(length, -1), base + fleet.offset[i])
            at = before
            for meeting in fleet.meetings:
                if i in meeting.members:
                    k = meeting.members.index(i)
                    m.number[meeting.which[:, k]] = at + np.arange(len(meeting))
                    m.waited[meeting.which[:, k]] = meeting.arrived - meeting.start[:, k]
                at += len(meeting)
            found[id(p)] = m
        before += sum(len(m) for m in fleet.meetings)
    return found
