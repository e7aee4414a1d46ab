"""Processes that a launcher stopped because another one had ended."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.worker_stopped import WorkerStopped

from necropsy.evidence._records import COMMON, RecordTable


class StoppedWorkers(RecordTable[WorkerStopped]):
    """One row a stop."""

    name = "stopped_workers"
    row = WorkerStopped
    accepts = (WorkerStopped,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "pid": "process id, or None for a whole step",
        "signal": "signal that was sent, or empty",
        "by": "the launcher",
    }
