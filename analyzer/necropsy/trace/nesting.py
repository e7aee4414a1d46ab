"""Which interval encloses which, on each thread: by sorting, without a stack."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
NONE = -1


class Nest:
    """Intervals of several threads; `parent` of each row is the innermost one that encloses it, or -1.

    Intervals that cross on one thread (clocks of two sources, damaged events) have the
    innermost that holds all of them as their parent.
    """

    def __init__(self, start: Rows, end: Rows, thread: NDArray[np.int32]) -> None:
        self._start, self._end, self._thread = np.asarray(start), np.asarray(end), np.asarray(thread)
        # On one thread by start; of two that start together the longer is the outer one.
        self.order = np.lexsort((-self._end, self._start, self._thread))
        self._sorted_start = self._start[self.order]
        self._sorted_thread = self._thread[self.order]
        self._first = {int(t): int(n) for t, n in zip(*np.unique(self._sorted_thread, return_index=True), strict=True)}
        self._parent: Rows | None = None

    @property
    def parent(self) -> Rows:
        """Row of the enclosing interval, -1 at the top."""
        if self._parent is None:
            self._parent = self._parents()
        return self._parent

    def _parents(self) -> Rows:
        order, n = self.order, len(self.order)
        parent = np.full(n, NONE, np.int64)
        if n == 0:
            return parent
        # Positions in the order; the candidate is the row before, and its ancestors in turn.
        ends = self._end[order]
        candidate = np.arange(-1, n - 1)
        first = np.concatenate(([True], self._sorted_thread[1:] != self._sorted_thread[:-1]))
        candidate[first] = NONE
        # Previous row with a greater or equal end on the same thread: pointer doubling over a settled prefix
        # is not possible, so climb level by level; depth of Python stacks bounds the rounds.
        settled = np.full(n, NONE, np.int64)
        open_ = np.flatnonzero(candidate >= 0)
        while len(open_):
            holds = ends[candidate[open_]] >= ends[open_]
            settled[open_[holds]] = candidate[open_[holds]]
            left = open_[~holds]
            # The candidate's own candidate is an ancestor of it or one that it passed over, which ends before it.
            candidate[left] = np.where(
                settled[candidate[left]] >= 0, settled[candidate[left]], candidate[candidate[left]]
            )
            known = candidate[left] >= 0
            open_ = left[known]
        parent[order] = np.where(settled >= 0, order[np.maximum(settled, 0)], NONE)
        return parent

    def innermost(self, thread: NDArray[np.int32], time: Rows) -> Rows:
        """Row of the innermost interval that holds each (thread, time), or -1."""
        found = np.full(len(time), NONE, np.int64)
        for t in np.unique(thread):
            if int(t) not in self._first:
                continue
            low = self._first[int(t)]
            high = int(np.searchsorted(self._sorted_thread, t, "right"))
            mine = np.flatnonzero(thread == t)
            at = np.searchsorted(self._sorted_start[low:high], time[mine], "right") - 1 + low
            found[mine] = np.where(at >= low, self.order[np.maximum(at, 0)], NONE)
        return self._climbed(found, time)

    def _climbed(self, rows: Rows, time: Rows) -> Rows:
        """Each row, or its first ancestor that is still open at the time."""
        parent = self.parent
        while True:
            over = np.flatnonzero(rows >= 0)
            over = over[self._end[rows[over]] < time[over]]
            if not len(over):
                return rows
            rows[over] = parent[rows[over]]

    def outermost(self, rows: Rows) -> Rows:
        """The ancestor at the top of each row's stack."""
        top = rows.copy()
        while True:
            up = np.where(top >= 0, self.parent[np.maximum(top, 0)], NONE)
            climbing = up >= 0
            if not climbing.any():
                return top
            top[climbing] = up[climbing]


def nearest(parent: Rows, wanted: NDArray[np.bool_]) -> Rows:
    """For each row, itself or its nearest ancestor that is wanted, or -1 (pointer doubling)."""
    n = len(parent)
    # A wanted row points to itself, so does the top; jumping twice as far each round ends after log(depth).
    jump = np.where(wanted, np.arange(n), parent)
    top = jump < 0
    jump = np.where(top, np.arange(n), jump)
    while True:
        further = jump[jump]
        if np.array_equal(further, jump):
            break
        jump = further
    return np.where(wanted[jump], jump, NONE)
