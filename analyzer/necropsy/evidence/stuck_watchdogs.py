"""Watchdogs of ProcessGroupNCCL that got stuck themselves."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.heartbeat import HeartbeatStuck

from necropsy.evidence._records import COMMON, RecordTable


class StuckWatchdogs(RecordTable[HeartbeatStuck]):
    """One row a report of the heartbeat monitor."""

    name = "stuck_watchdogs"
    row = HeartbeatStuck
    accepts = (HeartbeatStuck,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "spoken_by": "rank that reports, or None",
        "seconds": "how long the watchdog made no progress, or None",
        "gil": "the interpreter lock could not be had",
    }
