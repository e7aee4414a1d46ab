"""Device memory taken from the driver, or given back to it, while steps run."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from necropsy.trace.idle import covers
from necropsy.trace.intervals import Cover
from necropsy.trace.nesting import nearest
from necropsy.trace.profile import Profile, Site
from necropsy.trace.rank import Mask, Rows

_TAKES: Final = ("cudaMalloc", "cuMemCreate", "cuMemMap", "hipMalloc", "cuMemAlloc", "hipExtMallocWithFlags")
_GIVES: Final = ("cudaFree", "cuMemUnmap", "cuMemRelease", "hipFree", "cuMemFree")
# Frames that empty the allocator's cache: torch.cuda, torch.accelerator, torch.xpu, and what they call.
_EMPTIES: Final = (": empty_cache", "_cuda_emptyCache", "_accelerator_emptyCache", "_xpu_emptyCache")


class Churn(Struct, frozen=True):
    """Allocations in the judged steps: rows of the calls, in how many of the `later` steps (all but the first).

    `fading`: the last step has less than half the calls of the first, as while a cache fills up.
    `host` is the ns of the calls, `idle` that of it in which the device ran nothing.
    """

    taken: Rows
    given: Rows
    steps: int
    later: int
    last: bool
    fading: bool
    host: int
    idle: int

    @property
    def steady(self) -> bool:
        """Whether it goes on: in most steps after the first, two at least, the last included."""
        return self.last and self.steps >= 2 and 2 * self.steps >= self.later


def churn(p: Profile) -> Churn | None:
    """What is allocated in the steps; None where there are no steps or nothing is."""
    r = p.rank
    if p.steps.how == "window" or len(p.steps) < 3 or not len(r.calls):
        return None
    inside = p.in_steps(r.calls["start"])
    taken, given = (np.flatnonzero(inside & _versions(p, names)) for names in (_TAKES, _GIVES))
    both = np.concatenate((taken, given))
    if not len(both):
        return None
    step = p.steps.of(r.calls["start"][both])
    steps, counts = np.unique(step), np.bincount(step, minlength=len(p.steps))
    start, end = r.calls["start"][both], r.calls["end"][both]
    alone = covers(p)["allocating"].overlap(Cover.of(start, end))
    return Churn(
        taken, given, int((steps > 0).sum()), len(p.steps) - 1, bool(counts[-1] > 0),
        bool(2 * counts[-1] < counts[0]), int((end - start).sum()), int(alone.within(p.steps.start, p.steps.end).sum()),
    )  # fmt: skip


def emptied(p: Profile) -> list[Site]:
    """The user's functions that empty the allocator's cache in the judged steps (rows of frames)."""
    r = p.rank
    if not len(r.frames):
        return []
    names = [n for n in r.frame_names if r.trace.names[n].endswith(_EMPTIES) or _empties(r.trace.names[n])]
    wanted = np.isin(r.frames["name"], np.array(names, np.int64)) & p.in_steps(r.frames["start"])
    parent = r.frame_nest.parent
    around = nearest(parent, wanted)
    above = np.where(parent >= 0, around[np.maximum(parent, 0)], -1)
    rows = np.flatnonzero(wanted & (above < 0))
    sites = p.sites(r.user_frame[rows], rows, r.frames["end"][rows] - r.frames["start"][rows], r.frames["start"][rows])
    # Capturing a CUDA graph empties the cache, too; that is torch's own doing, where users' frames are known at all.
    return [s for s in sites if s.place is not None] or ([] if len(np.flatnonzero(r.user_frame >= 0)) else sites)


def _empties(name: str) -> bool:
    return name.startswith("<built-in") and "emptyCache" in name


def calls_at(p: Profile, found: Churn) -> list[Site]:
    """The user's functions that allocate, by time in the calls."""
    mask = np.zeros(len(p.rank.calls), np.bool_)
    mask[found.taken if len(found.taken) else found.given] = True
    return [s.blameless() for s in p.call_sites(mask)]


def _versions(p: Profile, names: tuple[str, ...]) -> Mask:
    """Calls by name, with the driver's version suffixes (`cuMemAlloc_v2`); `cudaMallocHost` is another call."""
    r = p.rank
    wanted = [n in names or n.partition("_v")[0] in names for n in r.trace.names]
    return np.asarray(np.array(wanted, np.bool_)[r.calls["name"]])
