"""torch's warnings about the number of DataLoader workers."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.data_worker import WorkerCount

from necropsy.evidence._records import COMMON, RecordTable


class WorkerCounts(RecordTable[WorkerCount]):
    """One row a warning."""

    name = "worker_counts"
    row = WorkerCount
    accepts = (WorkerCount,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "asked": "workers asked for",
        "suggested": "workers suggested, the CPUs of the process",
    }
