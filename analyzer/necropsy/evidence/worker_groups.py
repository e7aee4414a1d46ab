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

    @property
    def restarts(self) -> int | None:
        """The restarts allowed, as far as the log says; None if it does not."""
        return next((r.limit for r in self.rows if r.limit is not None), None)
