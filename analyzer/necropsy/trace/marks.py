"""Marks of `necropsy capture` in a trace: which line of the user's was running, by thread and time.

A mark counts for a moment inside a call of a function only if it began inside that call: the marks of its callers are
open around it, too, and a call whose lines were not marked (compiled, or run too often) must not be given theirs.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from necropsy_parsers.trace.marks import KIND, place_of

from necropsy.trace.nesting import NONE, Nest
from necropsy.trace.profile import Moments, Profile
from necropsy.trace.rank import Rows

# Part of the weight of a place's moments that must be on marked lines: recording may begin or end within one.
COVERED: Final = 0.95

Line = tuple[str, int]


class Marks:
    """The marks of a trace, sorted once."""

    def __init__(self, p: Profile) -> None:
        self._p = p
        self._rows = p.trace.kinds[KIND]
        self._nest = Nest(self._rows["start"], self._rows["end"], self._rows["thread"])

    def lines(self, m: Moments) -> Counter[Line | None]:
        """Line -> the weight of the moments on it; None for those on no marked line."""
        frames = self._p.rank.frames
        found: Counter[Line | None] = Counter()
        at = self._nest.innermost(frames["thread"][m.frames], m.times)
        inside = (at >= 0) & (self._rows["start"][np.maximum(at, 0)] >= frames["start"][m.frames])
        for name, weight in _summed(np.where(inside, self._rows["name"][np.maximum(at, 0)], NONE), m.ns + 1):
            found[place_of(self._p.trace.names[name]) if name >= 0 else None] += weight
        return found


def _summed(names: Rows, weights: Rows) -> list[tuple[int, int]]:
    values, inverse = np.unique(names, return_inverse=True)
    sums = np.bincount(inverse, weights=weights)
    return [(int(n), int(w)) for n, w in zip(values, sums, strict=True)]


def marks_of(p: Profile) -> Marks | None:
    """The marks of a trace; None where it has none."""
    if "marks" not in p.memo:
        p.memo["marks"] = Marks(p) if KIND in p.trace.kinds else None
    found: Marks | None = p.memo["marks"]
    return found


def marked_lines(m: Moments) -> list[tuple[str, int, float]]:
    """(file, line, part of the weight) of a place, the heaviest first; none where too much is on no marked line."""
    marks = marks_of(m.profile)
    if marks is None or not len(m.frames):
        return []
    lines = marks.lines(m)
    total = sum(lines.values())
    if lines.pop(None, 0) > (1 - COVERED) * total:
        return []
    return [(*line, n / total) for line, n in lines.most_common() if line is not None and n >= (1 - COVERED) * total]
