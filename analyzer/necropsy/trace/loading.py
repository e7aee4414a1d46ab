"""Waits of the main thread for batches: whose loops, with or without workers, and what they are made of."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from necropsy.finding import Place
from necropsy.trace.activity import LOADING
from necropsy.trace.intervals import Cover
from necropsy.trace.profile import Profile, Site
from necropsy.trace.rank import Mask, Rows

# A step waits if loading takes this part of it: the share from which Kineto's TensorBoard plugin recommended.
WAITING: Final = 0.05
# A function is where the time goes if it holds at least this part of its caller's.
MOST: Final = 0.5

# Iterators without workers: torch's, and torchdata's `_StatefulSingleProcessDataLoaderIter`.
_SINGLE: Final = "SingleProcess"
_FETCH: Final = (("torch/utils/data/_utils/fetch.py", ("fetch",)),)  # runs in the worker, where there is one
_RECEIVING: Final = ("<built-in function loads>", "<built-in method loads")


class Slow(Struct, frozen=True):
    """A user's function below the DataLoader: its place and its ns in the judged steps."""

    place: Place | None
    ns: int


def waits(p: Profile) -> Cover:
    """The waits that began in judged steps."""
    cover = p.activity.loading
    rows = p.in_steps(cover.starts)
    return Cover(cover.starts[rows], cover.ends[rows])


def loops(p: Profile) -> list[Site]:
    """The user's functions that iterate over a DataLoader, longest waits first."""
    r, cover = p.rank, waits(p)
    frame = r.frame_at(np.full(len(cover), r.main_thread, np.int32), cover.starts)
    user = np.where(frame >= 0, r.user_frame[np.maximum(frame, 0)] if len(r.frames) else -1, -1)
    sites = p.sites(user, np.arange(len(cover)), cover.ends - cover.starts, cover.starts)
    return [s.blameless() for s in sites]  # the loop is right; the loader's options are to be changed


def longest(p: Profile) -> int:
    """Nanoseconds of the longest wait for a batch."""
    cover = waits(p)
    return int((cover.ends - cover.starts).max()) if len(cover) else 0


def waiting_steps(p: Profile) -> int:
    """How many judged steps wait for data while the device is idle."""
    return int((p.partition.buckets["data loading"] >= WAITING * p.steps.length).sum())


def workers(p: Profile) -> bool | None:
    """Whether batches come from worker processes; None where the trace does not tell."""
    r = p.rank
    named = []
    for columns in (r.annotations, r.ops):
        rows = r.where(columns, LOADING) & (columns["thread"] == r.main_thread)
        named += [r.trace.names[int(n)] for n in np.unique(columns["name"][rows])]
    if named:
        single = _ns_of(p, tuple(n for n in named if _SINGLE in n))
        return single < _ns_of(p, tuple(n for n in named if _SINGLE not in n))
    if not len(r.frames):
        return None
    return not bool((p.activity.frames_of(_FETCH) & (r.frames["thread"] == r.main_thread)).any())


def _ns_of(p: Profile, names: tuple[str, ...]) -> int:
    total = 0
    for columns in (p.rank.annotations, p.rank.ops) if names else ():
        rows = p.rank.where(columns, names, exact=True) & p.in_steps(columns["start"])
        total += int((columns["end"] - columns["start"])[rows].sum())
    return total


def pageable(p: Profile) -> bool:
    """Whether batches, or anything else, are copied to the device from memory that is not pinned."""
    r = p.rank
    return bool((r.where(r.copies, "Memcpy HtoD (Pageable") & p.in_steps(r.copies["start"])).any())


def receiving(p: Profile) -> float:
    """Part of the waits in which the main thread unpacked what a worker had sent."""
    r, cover = p.rank, waits(p)
    rows = r.where(r.frames, _RECEIVING) & (r.frames["thread"] == r.main_thread)
    inside = Cover.of(r.frames["start"][rows], r.frames["end"][rows]).overlap(cover)
    return inside.total / cover.total if cover.total else 0.0


def slow_functions(p: Profile) -> list[Slow]:
    """The user's functions that loading spends its time in, from the data set's own down to the one that holds it."""
    r = p.rank
    if not len(r.frames):
        return []
    itself = r.user_frame == np.arange(len(r.frames))
    rows = itself & (r.frames["thread"] == r.main_thread) & waits(p).holds(r.frames["start"])
    found: list[Slow] = []
    caller = callers(p)
    level = rows & ~rows[np.maximum(caller, 0)]
    least = MOST * waits(p).total
    while level.any():
        name, ns = _heaviest(p, level)
        if ns < least:
            break
        mine = level & (r.frames["name"] == name)
        found.append(Slow(p.place(int(np.flatnonzero(mine)[0])), ns))
        level = rows & (caller >= 0) & mine[np.maximum(caller, 0)] & (r.frames["name"] != name)
        least = MOST * ns
    return found


def callers(p: Profile) -> Rows:
    """For each frame the user's nearest frame around it, itself not counted."""
    parent = p.rank.frame_nest.parent
    return np.where(parent >= 0, p.rank.user_frame[np.maximum(parent, 0)], -1)


def _heaviest(p: Profile, rows: Mask) -> tuple[int, int]:
    frames = p.rank.frames
    names, at = np.unique(frames["name"][rows], return_inverse=True)
    ns = np.bincount(at, weights=(frames["end"] - frames["start"])[rows])
    most = int(np.argmax(ns))
    return int(names[most]), int(ns[most])
