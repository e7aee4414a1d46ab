"""Signs that a writer went on working: the difference between a failure and a handled one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from necropsy_parsers.messages.training_value import TrainingValue
from necropsy_parsers.records import Anchor, Origin, Record
from necropsy_parsers.text.plain import ANYBODY, TextRun

from necropsy.evidence import Table

# tqdm prints a last bar a level after the traceback that ends the process; a third report is new work.
PROGRESS_AFTER: Final = 3
# Lines of no known meaning: a script's epilogue has a few, a program that goes on has many.
# Other ranks get on for a few steps after one failed; more than this and the failure was tolerated.
JOB_PROGRESS_AFTER: Final = 10
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
    """Runs of ordinary lines. Rules ask `went_on(record)`."""

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
        self.rows.append(
            ActivityRow(record.anchor, record.seq, record.attempt, writer, ordinary, progress, last, o.pid, o.rank)
        )

    def went_on(self, origin: Origin, seq: int, attempt: int) -> bool:
        """Whether the writer of `origin` reports enough after `seq` to have gone on working."""
        writer = writer_of(origin)
        ordinary = progress = 0
        for row in self.rows:
            if (
                row.seq > seq
                and row.attempt == attempt
                and (row.writer == writer or (row.writer == ANYBODY and not writer))
            ):
                ordinary += row.ordinary
                progress += row.progress
                if progress >= PROGRESS_AFTER or ordinary >= ORDINARY_AFTER:
                    return True
        return False

    def job_went_on(self, seq: int, attempt: int) -> bool:
        """Whether the job as a whole reports much further work after `seq`, whoever writes it."""
        steps = sum(r.progress for r in self.rows if r.seq > seq and r.attempt == attempt)
        return steps >= JOB_PROGRESS_AFTER


def writer_of(origin: Origin) -> str:
    """The writer as far as prefixes tell: `rank3`, `local1`, or ""."""
    if origin.rank is not None:
        return f"rank{origin.rank}"
    return f"local{origin.local_rank}" if origin.local_rank is not None else ""
