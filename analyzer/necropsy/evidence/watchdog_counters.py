"""The NCCL watchdog's counters at a failure."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.collective_timeout import WatchdogCounters

from necropsy.evidence._records import COMMON, RecordTable


class WatchdogCounterRows(RecordTable[WatchdogCounters]):
    """One row a report; compare only within one group."""

    name = "watchdog_counters"
    row = WatchdogCounters
    accepts = (WatchdogCounters,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "rank": "who says it",
        "group": "process group",
        "enqueued": "last enqueued work",
        "completed": "last completed work",
        "at": "the work at fault, if told",
    }
