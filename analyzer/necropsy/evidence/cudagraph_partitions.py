"""Graphs split for CUDA graphs."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.cudagraph import CudagraphPartition

from necropsy.evidence._records import COMMON, RecordTable


class CudagraphPartitions(RecordTable[CudagraphPartition]):
    """One row a graph."""

    name = "cudagraph_partitions"
    row = CudagraphPartition
    accepts = (CudagraphPartition,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "pieces": "pieces of the graph",
        "captured": "pieces that become CUDA graphs, or None where untold (torch 2.9 and 2.10)",
        "left_out": "pieces that do not, or None",
    }
