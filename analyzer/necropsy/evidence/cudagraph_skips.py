"""Graphs, and nodes of graphs, that were left out of CUDA graphs."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.cudagraph import CudagraphSkip

from necropsy.evidence._records import COMMON, RecordTable


class CudagraphSkips(RecordTable[CudagraphSkip]):
    """One row a graph or node left out."""

    name = "cudagraph_skips"
    row = CudagraphSkip
    accepts = (CudagraphSkip,)
    formats = ("log", "elastic_error_file", "torch_trace")
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "cpu, mutation, devices, dynamic, branch, overlap, op, inputs, rerecord, allocator, wrapper, chosen, "
        "node or other",
        "reason": "as printed, without prefixes and stack",
        "name": "node, operator or devices that it names",
        "count": "number of instances that it gives",
        "frames": "stack of the user's code, innermost last",
        "partial": "only a node is left out, the rest of its graph is captured",
    }
