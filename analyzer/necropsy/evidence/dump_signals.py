"""Signals to dump debug information."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.debug_dump import DumpSignal

from necropsy.evidence._records import COMMON, RecordTable


class DumpSignals(RecordTable[DumpSignal]):
    """One row a signal."""

    name = "dump_signals"
    row = DumpSignal
    accepts = (DumpSignal,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "rank": "who speaks",
        "initiator": "it started the dump",
        "heard_from": "rank it heard it from, if told",
    }
