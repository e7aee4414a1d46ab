"""Steps that take longer than the others, and what they do that the others do not."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from necropsy.trace.intervals import Cover
from necropsy.trace.partition import BUCKETS
from necropsy.trace.profile import Profile, Site
from necropsy.trace.rank import Mask, Rows
from necropsy.trace.sizes import sizes_of

SLOW: Final = 1.5  # times the median from which a step is an outlier (nsys-ai)
FEW: Final = 3  # steps from which a median says anything
MORE: Final = 1.2  # times the others' GPU work from which a step has more of it

# Time in these is the device's. The host runs ahead of it, so that a step shows work of steps before, and the last
# one waits for all that is left.
_DEVICE: Final = ("compute", "communication", "copies", "kernel gaps", "queue", "synchronising")

_OF_SIZES: Final = (*_DEVICE, "dispatching", "allocating")  # what other sizes take longer, or take once


class Slow(Struct, frozen=True):
    """The steps that take longer: their indexes, their usual length, and bucket -> ns beyond the usual of each.

    `sizes`: their work has other sizes than that of usual steps ("other"), and all are the first of theirs ("first").
    """

    steps: Rows
    usual: int
    excess: dict[str, int]
    sizes: str = ""

    @property
    def ns(self) -> int:
        """Nanoseconds beyond the usual length."""
        return sum(self.excess.values())

    @property
    def main(self) -> str:
        """The bucket that most of it is in."""
        return max(self.excess, key=lambda b: self.excess[b])


def slow_steps(p: Profile) -> Slow | None:
    """The outliers among the judged steps, if they are fewer than the others.

    The usual length is the median of the shorter half, so that a checkpoint in every
    second step does not hide itself.
    """
    length = p.steps.length
    if len(length) < FEW or p.steps.how == "window":
        return None
    usual = float(np.median(np.sort(length)[: (len(length) + 1) // 2 + len(length) % 2]))
    slow = length > SLOW * usual
    if not slow.any() or slow.sum() * 2 > len(length):
        return None
    found = _beyond(p, slow, ~slow, int(usual))
    if found.main in _OF_SIZES:
        sizes = sizes_of(p, slow)
        rest = slow & ~sizes.other
        if not rest.any():
            return replace(found, sizes="first" if sizes.first[slow].all() else "other")
        found = _beyond(p, rest, ~slow, int(usual))
    if found.main in _DEVICE:
        work = _submitted(p)
        if not (work[found.steps] > MORE * np.median(work[~slow])).all():
            return None
    return found


def _beyond(p: Profile, slow: Mask, others: Mask, usual: int) -> Slow:
    """What the slow steps take beyond the others."""
    buckets = {bucket: p.partition.buckets[bucket] for bucket in BUCKETS}
    excess = {b: int((ns[slow] - np.median(ns[others])).sum()) for b, ns in buckets.items()}
    return Slow(np.flatnonzero(slow), usual, excess)


def _submitted(p: Profile) -> Rows:
    """Ns of GPU work that each judged step submitted."""
    r = p.rank
    ns = np.zeros(len(p.steps), np.int64)
    for work in (r.kernels, r.copies):
        call = r.launch_of(work)
        known = np.flatnonzero(call >= 0)
        if len(known):
            step = p.steps.of(r.calls["start"][call[known]])
            length = (work["end"] - work["start"])[known]
            np.add.at(ns, step[step >= 0], length[step >= 0])
    return ns


def sites_in(p: Profile, cover: Cover, steps: Mask | None = None) -> list[Site]:
    """The user's functions that led to what a cover of the main thread holds, longest first."""
    r = p.rank
    at = p.steps.of(cover.starts)
    inside = at >= 0
    if steps is not None:
        inside &= steps[np.maximum(at, 0)]
    start, end = cover.starts[inside], cover.ends[inside]
    frame = r.frame_at(np.full(len(start), r.main_thread, np.int32), start)
    user = np.where(frame >= 0, r.user_frame[np.maximum(frame, 0)] if len(r.frames) else -1, -1)
    return p.sites(user, np.arange(len(start)), end - start, start)


def busiest(p: Profile, steps: Rows) -> Site | None:
    """The user's function that takes the most time in these steps beyond what it takes in the others, if it is clear.

    Time in a function is its own frames' with all they call; of functions within each
    other that differ little, the innermost is meant.
    """
    r = p.rank
    if not len(r.frames):
        return None
    at = p.steps.of(r.frames["start"])
    rows = np.flatnonzero((r.user_frame == np.arange(len(r.frames))) & (at >= 0))
    rows = rows[r.frames["thread"][rows] == r.main_thread]
    rows = rows[r.frames["end"][rows] <= p.steps.end[at[rows]]]
    slow = np.isin(at[rows], steps)
    length = r.frames["end"][rows] - r.frames["start"][rows]
    whole = max(1, int((p.steps.length[steps]).sum()))
    best: tuple[int, Site] | None = None
    for name in np.unique(r.frames["name"][rows]):
        mine = r.frames["name"][rows] == name
        usual = float(length[mine & ~slow].sum()) / max(1, len(p.steps) - len(steps))
        excess = int(length[mine & slow].sum() - usual * len(steps))
        if excess >= whole / 2 and (best is None or excess <= best[0]):
            chosen = rows[mine & slow]
            best = (excess, Site(p.place(int(chosen[0])), chosen, excess))
    return best[1] if best else None
