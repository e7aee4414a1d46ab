"""What collectors of `necropsy capture` did in the job's processes: one row a note."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.formats.capture_process import CollectorNote

from necropsy.evidence._records import COMMON, RecordTable


class CollectorNotes(RecordTable[CollectorNote]):
    """One row a note, in the order of each process."""

    name = "collector_notes"
    row = CollectorNote
    accepts = (CollectorNote,)
    formats = ("capture_process",)
    supply = "the run folder of `necropsy capture`"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "collector": "logs, profiler, marks, ...",
        "what": "started, recording, recorded, nothing, left, refused, failed, ...",
        "pid": "process id",
        "facts": "what was noted besides, as texts: file, bytes, first, steps, seconds, why, error, ...",
    }
