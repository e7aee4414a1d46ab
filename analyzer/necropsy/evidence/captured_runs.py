"""Runs that `necropsy capture` made: one row a run of the command."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.formats.capture_run import CapturedRun

from necropsy.evidence._records import COMMON, RecordTable


class CapturedRuns(RecordTable[CapturedRun]):
    """One row a run."""

    name = "captured_runs"
    row = CapturedRun
    accepts = (CapturedRun,)
    formats = ("capture_run",)
    supply = "the run folder of `necropsy capture`"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "command": "the command, secrets hidden",
        "folder": "where it was started",
        "name": "job, or blocking (a repetition with CUDA_LAUNCH_BLOCKING=1)",
        "why": "the question that was asked, or empty",
        "collect": "names of the collectors",
        "status": "exit status as a shell shows it (128+n for a signal); None while it runs",
        "seconds": "how long it took, in seconds; None while it runs",
    }
