"""The steps of a run: as annotated, or as inferred.

In order: `ProfilerStep#N` annotations; the ends of `Optimizer.step#...` annotations; the
calls of one Python function that launch most of the GPU's work again and again; else the
window as a whole, which is no step.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy.trace.nesting import NONE
from necropsy.trace.rank import RankTrace

Rows = NDArray[np.int64]

MIN_REPEATS: Final = 3  # occurrences from which a repetition is taken for steps
COVERED: Final = 0.7  # of the window: a function whose calls cover less is not what repeats


class Steps(Struct, frozen=True):
    """Windows of steps, sorted: `start`, `end` in ns, `number` as annotated or counted from 0.

    `how` is annotation, optimizer, function or window; `word` says it in a report. `partial`
    marks steps that the recording cut.
    """

    start: Rows
    end: Rows
    number: Rows
    how: str
    word: str

    def __len__(self) -> int:
        return len(self.start)

    @property
    def length(self) -> Rows:
        """Nanoseconds of each."""
        return self.end - self.start

    @property
    def total(self) -> int:
        """Nanoseconds of all."""
        return int(self.length.sum())

    @property
    def inferred(self) -> bool:
        """Whether nobody said where the steps are."""
        return self.how != "annotation"

    def of(self, times: Rows) -> Rows:
        """Index of the step that holds each time, or -1."""
        if not len(self):
            return np.full(len(times), NONE, np.int64)
        at = np.searchsorted(self.start, times, "right") - 1
        return np.where((at >= 0) & (times < self.end[np.maximum(at, 0)]), at, NONE)


def steps_of(rank: RankTrace) -> Steps:
    """The steps of a trace."""
    return _annotated(rank) or _by_optimizer(rank) or _by_function(rank) or _whole(rank)


def _annotated(rank: RankTrace) -> Steps | None:
    rows = np.flatnonzero(rank.where(rank.annotations, "ProfilerStep#"))
    if not len(rows):
        rows = np.flatnonzero(rank.where(rank.ops, "ProfilerStep#"))  # torch 1.8
        return _numbered(rank, rank.ops, rows) if len(rows) else None
    return _numbered(rank, rank.annotations, rows)


def _numbered(rank: RankTrace, columns: object, rows: Rows) -> Steps | None:
    from necropsy_parsers.trace.columns import Columns

    assert isinstance(columns, Columns)
    number = np.array([_number(rank.named(columns, int(r))) for r in rows], np.int64)
    start, end = columns["start"][rows], columns["end"][rows]
    some = end > start
    if not some.any():
        return None
    return Steps(start[some], end[some], number[some], "annotation", "as annotated (ProfilerStep)")


def _number(name: str) -> int:
    digits = name.rpartition("#")[2]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 18 else NONE


def _by_optimizer(rank: RankTrace) -> Steps | None:
    """From the end of one optimizer's step to the end of the next; the recording's edges are no steps."""
    columns = rank.annotations
    rows = np.flatnonzero(rank.where(columns, "Optimizer.step#"))
    if len(rows) < MIN_REPEATS:
        columns = rank.ops
        rows = np.flatnonzero(rank.where(columns, "Optimizer.step#"))
    if len(rows) < MIN_REPEATS:
        return None
    # Several optimizers: the one that steps least often ends the step (gradient penalties, GANs).
    names, counts = np.unique(columns["name"][rows], return_counts=True)
    chosen = rows[columns["name"][rows] == names[np.argmin(np.where(counts >= MIN_REPEATS, counts, counts.max() + 1))]]
    ends = np.sort(columns["end"][chosen])
    if len(ends) < MIN_REPEATS:
        return None
    return Steps(ends[:-1], ends[1:], np.arange(len(ends) - 1), "optimizer", "from one optimizer step to the next")


def _by_function(rank: RankTrace) -> Steps | None:
    """A user's function whose calls follow each other and cover most of the window: an inference loop's body."""
    if not len(rank.frames):
        return None
    main = rank.frames["thread"] == rank.main_thread
    users = np.array([n for n, f in rank.frame_names.items() if f.kind == "user" and not f.mark], np.int64)
    rows = np.flatnonzero(main & np.isin(rank.frames["name"], users))
    low, high = rank.window
    best: tuple[int, Rows] | None = None
    for name in np.unique(rank.frames["name"][rows]):
        mine = rows[rank.frames["name"][rows] == name]
        mine = mine[np.argsort(rank.frames["start"][mine], kind="stable")]
        start, end = rank.frames["start"][mine], rank.frames["end"][mine]
        covered = int((end - start).sum())
        apart = bool((start[1:] >= end[:-1]).all())  # one that calls itself is no step
        if (
            len(mine) >= MIN_REPEATS
            and apart
            and covered >= COVERED * (high - low)
            and (best is None or covered > best[0])
        ):
            best = (covered, mine)
    if best is None:
        return None
    mine = best[1]
    name = rank.frame_names[int(rank.frames["name"][mine[0]])]
    # What the loop does between two calls (reading the result, say) belongs to the step, too.
    start = rank.frames["start"][mine]
    end = np.concatenate((start[1:], rank.frames["end"][mine[-1:]]))
    return Steps(
        start, end, np.arange(len(mine)), "function", f"from one call of {name.function} to the next",
    )  # fmt: skip


def _whole(rank: RankTrace) -> Steps:
    low, high = rank.window
    some = high > low
    edge = np.array([low] if some else [], np.int64)
    return Steps(edge, np.array([high] if some else [], np.int64), np.arange(len(edge)), "window", "none found")
