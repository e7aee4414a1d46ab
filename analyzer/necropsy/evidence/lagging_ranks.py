"""Ranks that torch's desync report names."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.collective_timeout import LaggingRanks

from necropsy.evidence._records import COMMON, RecordTable


class LaggingRankRows(RecordTable[LaggingRanks]):
    """One row a report."""

    name = "lagging_ranks"
    row = LaggingRanks
    accepts = (LaggingRanks,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "ranks": "the ranks named",
    }
