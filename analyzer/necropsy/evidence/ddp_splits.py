"""Compiled graphs under DistributedDataParallel, and the buckets made of them."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.ddp_split import DdpSplit

from necropsy.evidence._records import COMMON, RecordTable


class DdpSplits(RecordTable[DdpSplit]):
    """One row a compiled graph."""

    name = "ddp_splits"
    row = DdpSplit
    accepts = (DdpSplit,)
    supply = "the log of a run with TORCH_LOGS=+dynamo"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "cap": "bytes of a bucket, 0 where the graph holds no parameters",
        "buckets": "buckets made of it, 0 where it holds no parameters",
    }
