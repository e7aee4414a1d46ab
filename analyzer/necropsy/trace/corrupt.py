"""Times of events that cannot be, or that other readers cannot keep apart."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from necropsy.trace.profile import Profile
from necropsy.trace.rank import Mask, Rows

ABSOLUTE: Final = 1 << 53  # ns since 1970 (a hundred days): times above it count from there, not from the boot
OVERLAP: Final = 20_000  # ns; launches that depend on each other (PDL) overlap by a few microseconds on purpose


class Clock(Struct, frozen=True):
    """What is wrong with the times of a trace's GPU work.

    `rounded`: neighbours on a stream that overlap only if times are kept as doubles;
    `overlaps`: those that do overlap, in number; `worst` ns of it.
    """

    work: int
    absolute: bool
    rounded: int
    overlaps: int
    worst: int


def clock_of(p: Profile) -> Clock:
    """Neighbours on each stream, compared exactly and as doubles."""
    k = p.rank.kernels
    order = np.lexsort((k["start"], k["stream"], k["device"], k["process"], k["thread"]))
    start, end = k["start"][order], k["end"][order]
    same = np.ones(max(0, len(start) - 1), np.bool_)
    for c in ("stream", "device", "process", "thread"):
        same &= k[c][order][1:] == k[c][order][:-1]
    by = np.where(same, end[:-1] - start[1:], 0)
    absolute = p.trace.meta.base == 0 and len(start) > 0 and int(start[0]) > ABSOLUTE
    rounded = int((same & (by <= 0) & _overlap_as_doubles(start, end)).sum()) if absolute else 0
    overlaps = by > OVERLAP
    return Clock(len(start), absolute, rounded, int(overlaps.sum()), int(by.max()) if len(by) else 0)


def _overlap_as_doubles(start: Rows, end: Rows) -> Mask:
    """Whether each row ends behind the next one's start if times are doubles of microseconds, as in JSON."""
    # The whole part fits a double, so that there is one rounding, as in parsing.
    us = (start // 1000).astype(np.float64) + (start % 1000) / 1000.0
    behind: Mask = (us[:-1] + (end - start)[:-1] / 1000.0) > us[1:]
    return behind
