"""Collectives that ran into their time limit, as the NCCL watchdog reports them."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.collective_timeout import CollectiveTimeout

from necropsy.evidence._records import COMMON, RecordTable


class CollectiveTimeouts(RecordTable[CollectiveTimeout]):
    """One row a report."""

    name = "collective_timeouts"
    row = CollectiveTimeout
    accepts = (CollectiveTimeout,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "rank": "who says it",
        "operation": "ALLREDUCE, BROADCAST, ...",
        "sequence": "number of the collective in its process group",
        "elements": "input elements",
        "limit_ms": "limit in ms",
        "ran_ms": "time waited in ms",
    }
