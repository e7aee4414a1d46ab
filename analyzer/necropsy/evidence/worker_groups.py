"""Restarts of torchrun's worker group, and how many it may make."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.worker_group import WorkerGroupEvent

from necropsy.evidence._records import COMMON, RecordTable


class WorkerGroups(RecordTable[WorkerGroupEvent]):
    """One row an event; torchrun reports them at log level INFO only."""

    name = "worker_groups"
    row = WorkerGroupEvent
    accepts = (WorkerGroupEvent,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "failed or joined (new nodes; the group restarts), or limit (as configured)",
        "left": "restarts left before this one, or None",
        "limit": "restarts allowed (--max-restarts), or None",
    }

    restarts: int | None = None  # those allowed, as far as the log says

    def add(self, record: WorkerGroupEvent) -> None:  # type: ignore[override]
        """Take an event."""
        super().add(record)
        if self.restarts is None:
            self.restarts = record.limit
