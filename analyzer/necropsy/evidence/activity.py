"""Signs that a writer went on working: the difference between a failure and a handled one."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import ClassVar, Final

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


@dataclass(frozen=True, slots=True)
class ActivityRow:
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
        self._last: dict[tuple[object, ...], deque[ActivityRow]] = {}

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
        row = ActivityRow(record.anchor, record.seq, record.attempt, writer, ordinary, progress, last, o.pid, o.rank)
        kind = "progress" if progress else "ordinary" if ordinary else "last words"
        key = (kind, input_number(record.seq), record.attempt, writer, o.pid, o.rank)
        self._last.setdefault(key, deque(maxlen=KEPT)).append(row)

    def finish(self) -> None:
        """Put the rows in order of reading."""
        self.rows = sorted((r for rows in self._last.values() for r in rows), key=lambda r: r.seq)

    def went_on(self, origin: Origin, seq: int, attempt: int) -> bool:
        """Whether the writer of `origin` reports enough after `seq` to have gone on working."""
        writer = writer_of(origin)
        ordinary = progress = 0
        for row in self.rows:
            if (
                row.seq > seq
                and input_number(row.seq) == input_number(seq)
                and row.attempt == attempt
                and (row.writer == writer or (row.writer == ANYBODY and not writer))
            ):
                ordinary += row.ordinary
                progress += row.progress
                if progress >= PROGRESS_AFTER or ordinary >= ORDINARY_AFTER:
                    return True
        return False

    def healthy_after(self, attempt: int) -> bool:
        """Whether a later attempt reports much work."""
        later: dict[int, int] = {}
        for row in self.rows:
            later[row.attempt] = later.get(row.attempt, 0) + row.progress
        return any(steps >= JOB_PROGRESS_AFTER for number, steps in later.items() if number > attempt)

    def job_went_on(self, seq: int, attempt: int) -> bool:
        """Whether the job as a whole reports much further work after `seq`, whoever writes it."""
        here = input_number(seq)  # positions in other inputs say nothing about before and after
        after = (r for r in self.rows if r.seq > seq and input_number(r.seq) == here and r.attempt == attempt)
        steps = sum(r.progress for r in after)
        return steps >= JOB_PROGRESS_AFTER


def writer_of(origin: Origin) -> str:
    """The writer as far as prefixes tell: `rank3`, `local1`, or ""."""
    if origin.rank is not None:
        return f"rank{origin.rank}"
    return f"local{origin.local_rank}" if origin.local_rank is not None else ""
