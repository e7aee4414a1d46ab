"""Signs that a writer went on working: the difference between a failure and a handled one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Collection
from typing import ClassVar, Final

from msgspec import Struct

from necropsy_parsers.messages.training_value import TrainingValue
from necropsy_parsers.records import Anchor, Origin, Record, input_number
from necropsy_parsers.text.plain import ANYBODY, TextRun

from necropsy.evidence import Table

# The last rows of each writer tell all that rules ask; a log of gigabytes has a million.
KEPT: Final = 32
# tqdm prints a last bar a level after the traceback that ends the process; a third report is new work.
PROGRESS_AFTER: Final = 3
# Other ranks get on for a few steps after one failed; more than this and the failure was tolerated.
JOB_PROGRESS_AFTER: Final = 10
# Lines of no known meaning: a script's epilogue has a few, a program that goes on has many.
ORDINARY_AFTER: Final = 30


class ActivityRow(Struct, frozen=True):
    """A run of ordinary lines of one writer, and how many of them report a step of work."""

    anchor: Anchor
    seq: int
    attempt: int
    writer: str
    ordinary: int
    progress: int
    last: str = ""
    pid: int | None = None
    rank: int | None = None


class _Later:
    """How much is reported after a point: sums from each row to the last, so that an exception costs a bisection."""

    def __init__(self) -> None:
        self._seqs: list[int] = []
        self._ordinary: list[int] = [0]  # of the rows so far
        self._progress: list[int] = [0]

    def take(self, row: ActivityRow) -> None:
        """One more row; rows come in order of reading."""
        self._seqs.append(row.seq)
        self._ordinary.append(self._ordinary[-1] + row.ordinary)
        self._progress.append(self._progress[-1] + row.progress)

    def than(self, seq: int) -> tuple[int, int]:
        """Ordinary lines and steps of the rows that begin after `seq`."""
        at = bisect_right(self._seqs, seq)
        return self._ordinary[-1] - self._ordinary[at], self._progress[-1] - self._progress[at]


_NOTHING: Final = _Later()


class Activity(Table[ActivityRow]):
    """Runs of ordinary lines, the last `KEPT` of each writer. Rules ask `went_on(record)`."""

    name = "activity"
    row = ActivityRow
    accepts = (TextRun, TrainingValue)
    columns: ClassVar[dict[str, str]] = {
        "anchor": "where the run begins",
        "seq": "order of reading",
        "attempt": "number of the attempt in the log, from 0",
        "writer": "rank, local rank or empty; ? for lines that were only counted",
        "ordinary": "lines that are neither blank nor teardown",
        "progress": "lines of them that report a step of work",
        "last": "the last line of the run",
        "pid": "process id in the prefix, or None",
        "rank": "rank of the last line, or None",
    }

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[object, ...], deque[tuple[Record, str, int, int, str]]] = {}
        self._jobs: dict[tuple[int, int], _Later] = {}
        self._writers: dict[tuple[int, int, str], _Later] = {}
        self._steps: dict[int, int] = {}
        self._ranks: dict[int, set[int]] = {}
        self.all_ranks: frozenset[int] = frozenset()  # those that report anything
        self._steps_told: dict[int, list[ActivityRow]] = {}
        self._words_of_rank: dict[int, ActivityRow] = {}
        self._words_of_process: dict[int, ActivityRow] = {}
        self._nameless: list[ActivityRow] = []

    def add(self, record: Record) -> None:
        """Take a run of text, or a reported loss."""
        if isinstance(record, TextRun):
            if record.ordinary or record.last:
                writer = ANYBODY if record.key == ANYBODY else writer_of(record.origin)
                self._append(record, writer, record.ordinary, record.progress, record.last)
        elif isinstance(record, TrainingValue):
            self._append(record, writer_of(record.origin), 1, 1, record.text)

    def _append(self, record: Record, writer: str, ordinary: int, progress: int, last: str) -> None:
        o = record.origin
        kind = "progress" if progress else "ordinary" if ordinary else "last words"
        key = (kind, input_number(record.seq), record.attempt, writer, o.pid, o.rank)
        kept = self._last.get(key)
        if kept is None:
            kept = self._last[key] = deque(maxlen=KEPT)
        kept.append((record, writer, ordinary, progress, last))  # few become rows

    def finish(self) -> None:
        """Put the rows in order of reading, and index what rules ask once an exception or once an attempt."""
        self.rows = sorted((_row(*kept) for rows in self._last.values() for kept in rows), key=_seq)
        for row in self.rows:
            where = input_number(row.seq), row.attempt
            self._jobs.setdefault(where, _Later()).take(row)
            for writer in {row.writer, "" if row.writer == ANYBODY else row.writer}:
                self._writers.setdefault((*where, writer), _Later()).take(row)
            self._steps[row.attempt] = self._steps.get(row.attempt, 0) + row.progress
            if row.rank is not None:
                self._ranks.setdefault(row.attempt, set()).add(row.rank)
            if row.last.strip():
                if row.progress:
                    self._steps_told.setdefault(row.attempt, []).append(row)
                _keep_last(self._words_of_rank, row.rank, row)
                _keep_last(self._words_of_process, row.pid, row)
        self.all_ranks = frozenset(r for ranks in self._ranks.values() for r in ranks)
        named = {r.pid for r in self.rows if r.writer.startswith("rank")}
        nameless = (r for pid, r in self._words_of_process.items() if pid not in named)
        self._nameless = sorted(nameless, key=lambda r: r.seq, reverse=True)

    def went_on(self, origin: Origin, seq: int, attempt: int) -> bool:
        """Whether the writer of `origin` reports enough after `seq` to have gone on working."""
        later = self._writers.get((input_number(seq), attempt, writer_of(origin)), _NOTHING)
        ordinary, progress = later.than(seq)
        return progress >= PROGRESS_AFTER or ordinary >= ORDINARY_AFTER

    def healthy_after(self, attempt: int) -> bool:
        """Whether a later attempt reports much work."""
        return any(steps >= JOB_PROGRESS_AFTER for number, steps in self._steps.items() if number > attempt)

    def job_went_on(self, seq: int, attempt: int) -> bool:
        """Whether the job as a whole reports much further work after `seq`, whoever writes it.

        Only in the same input: positions in others say nothing about before and after.
        """
        _, steps = self._jobs.get((input_number(seq), attempt), _NOTHING).than(seq)
        return steps >= JOB_PROGRESS_AFTER

    def ranks(self, attempt: int) -> Collection[int]:
        """The ranks that report anything in an attempt."""
        return self._ranks.get(attempt, frozenset())

    def last_step(self, seq: int, attempt: int) -> ActivityRow | None:
        """The last row of an attempt that begins before `seq` and quotes a step of work; of several there the first."""
        rows = self._steps_told.get(attempt, [])
        before = bisect_left(rows, seq, key=_seq)
        return rows[bisect_left(rows, rows[before - 1].seq, key=_seq)] if before else None

    def words_of_rank(self, rank: int) -> str:
        """The last line that a rank wrote, or ""."""
        row = self._words_of_rank.get(rank)
        return row.last.strip() if row is not None else ""

    def words_of_nameless(self, known: Collection[int]) -> str:
        """The last line of a process that never names its rank and is none of `known`, or ""."""
        return next((r.last.strip() for r in self._nameless if r.pid not in known), "")


def _row(record: Record, writer: str, ordinary: int, progress: int, last: str) -> ActivityRow:
    o = record.origin
    return ActivityRow(record.anchor, record.seq, record.attempt, writer, ordinary, progress, last, o.pid, o.rank)


def _seq(row: ActivityRow) -> int:
    return row.seq


def _keep_last(words: dict[int, ActivityRow], who: int | None, row: ActivityRow) -> None:
    """Of rows at one place the first stays; the words stand in the order of reading."""
    if who is not None and (who not in words or words[who].seq < row.seq):
        words.pop(who, None)
        words[who] = row


def writer_of(origin: Origin) -> str:
    """The writer as far as prefixes tell: `rank3`, `local1`, or ""."""
    if origin.rank is not None:
        return f"rank{origin.rank}"
    return f"local{origin.local_rank}" if origin.local_rank is not None else ""
