"""Sets of half-open intervals of whole nanoseconds, as sorted arrays of starts and ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ns = NDArray[np.int64]


class Cover:
    """A set of disjoint intervals, sorted; `starts` and `ends` in ns. Touching ones are joined."""

    __slots__ = ("_before", "ends", "starts")

    def __init__(self, starts: Ns, ends: Ns) -> None:
        self.starts = starts
        self.ends = ends
        self._before: Ns | None = None

    @classmethod
    def of(cls, starts: Ns, ends: Ns) -> Cover:
        """The union of any intervals; empty and reversed ones count for nothing."""
        some = ends > starts
        starts, ends = starts[some], ends[some]
        if not len(starts):
            return cls(starts, ends)
        order = np.argsort(starts, kind="stable")
        starts, reach = starts[order], np.maximum.accumulate(ends[order])
        first = np.flatnonzero(np.concatenate(([True], starts[1:] > reach[:-1])))
        return cls(starts[first], reach[np.concatenate((first[1:] - 1, [len(reach) - 1]))])

    @classmethod
    def empty(cls) -> Cover:
        """No interval."""
        none = np.empty(0, np.int64)
        return cls(none, none)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def total(self) -> int:
        """The sum of the lengths."""
        return int((self.ends - self.starts).sum())

    def upto(self, times: Ns) -> Ns:
        """How much of the set lies before each time."""
        if not len(self.starts):
            return np.zeros(len(times), np.int64)
        if self._before is None:
            self._before = np.concatenate(([0], np.cumsum(self.ends - self.starts)))
        n = np.searchsorted(self.starts, times, "right")
        last = np.maximum(n - 1, 0)
        within = np.minimum(times, self.ends[last]) - self.starts[last]
        return np.where(n > 0, self._before[last] + within, 0)

    def within(self, starts: Ns, ends: Ns) -> Ns:
        """How much of the set lies in each of the windows."""
        return self.upto(ends) - self.upto(starts)

    def union(self, *others: Cover) -> Cover:
        """What any of the sets holds."""
        sets = (self, *others)
        return Cover.of(np.concatenate([s.starts for s in sets]), np.concatenate([s.ends for s in sets]))

    def minus(self, other: Cover) -> Cover:
        """What is not in the other."""
        return self.overlap(other.complement())

    def overlap(self, other: Cover) -> Cover:
        """What both hold."""
        if not len(self) or not len(other):
            return Cover.empty()
        # An interval of the one meets a run of the other's, from the first that ends behind its start.
        low = np.searchsorted(other.ends, self.starts, "right")
        high = np.searchsorted(other.starts, self.ends, "left")
        count = np.maximum(high - low, 0)
        mine = np.repeat(np.arange(len(self)), count)
        theirs = np.arange(len(mine)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
        return Cover(
            np.maximum(self.starts[mine], other.starts[theirs]), np.minimum(self.ends[mine], other.ends[theirs])
        )

    def complement(self) -> Cover:
        """All time that is not in the set."""
        low, high = np.array([_FIRST], np.int64), np.array([_LAST], np.int64)
        starts, ends = np.concatenate((low, self.ends)), np.concatenate((self.starts, high))
        some = ends > starts
        return Cover(starts[some], ends[some])

    def clipped(self, start: int, end: int) -> Cover:
        """What lies in one window."""
        return self.overlap(Cover(np.array([start], np.int64), np.array([end], np.int64)))

    def holds(self, times: Ns) -> NDArray[np.bool_]:
        """Whether each time lies in the set."""
        if not len(self.starts):
            return np.zeros(len(times), np.bool_)
        n = np.searchsorted(self.starts, times, "right") - 1
        return (n >= 0) & (times < self.ends[np.maximum(n, 0)])


_FIRST, _LAST = -(1 << 62), 1 << 62


def layered(sets: Sequence[Cover]) -> list[Cover]:
    """The sets made disjoint: each without what an earlier one holds."""
    found: list[Cover] = []
    taken = Cover.empty()
    for one in sets:
        found.append(one.minus(taken))
        taken = taken.union(one)
    return found
