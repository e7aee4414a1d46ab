"""Calls of `next()` on DataLoaders, from the loops that iterate over them."""

from __future__ import annotations

import numpy as np

from necropsy.trace.activity import LOADING
from necropsy.trace.profile import Profile, Site
from necropsy.trace.rank import Rows


def waits(p: Profile) -> Rows:
    """Rows of the annotations in which the main thread waited for a batch, in the judged steps."""
    r = p.rank
    rows = r.where(r.annotations, LOADING) & (r.annotations["thread"] == r.main_thread)
    return np.flatnonzero(rows & p.in_steps(r.annotations["start"]))


def loops(p: Profile) -> list[Site]:
    """The user's functions that iterate over a DataLoader, longest waits first."""
    r, rows = p.rank, waits(p)
    start, end = r.annotations["start"][rows], r.annotations["end"][rows]
    frame = r.frame_at(r.annotations["thread"][rows], start)
    user = np.where(frame >= 0, r.user_frame[np.maximum(frame, 0)] if len(r.frames) else -1, -1)
    return p.sites(user, rows, end - start)


def longest(p: Profile) -> int:
    """Nanoseconds of the longest wait for a batch."""
    r, rows = p.rank, waits(p)
    return int((r.annotations["end"][rows] - r.annotations["start"][rows]).max()) if len(rows) else 0
