"""Retries and cache flushes of the caching allocator."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.allocator_retry import AllocatorRetry

from necropsy.evidence._records import COMMON, RecordTable


class AllocatorRetries(RecordTable[AllocatorRetry]):
    """One row a report of a count above zero."""

    name = "allocator_retries"
    row = AllocatorRetry
    accepts = (AllocatorRetry,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "retries": "count",
        "source": "which report gave it",
    }
