"""DataLoader workers that died."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.data_worker import WorkerDeath

from necropsy.evidence._records import COMMON, RecordTable


class WorkerDeaths(RecordTable[WorkerDeath]):
    """One row a report of a death."""

    name = "worker_deaths"
    row = WorkerDeath
    accepts = (WorkerDeath,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "pids": "process ids",
        "signal": "as printed, or empty",
        "exit_code": "or None",
        "shared_memory": "the text speaks of shared memory",
        "from_exception": "said by an exception",
    }
