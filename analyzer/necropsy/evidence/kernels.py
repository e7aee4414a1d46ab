"""Kernels that a device ran, one row a kernel."""

from __future__ import annotations

from typing import ClassVar

from necropsy.evidence._trace_columns import TRACED, TraceTable


class Kernels(TraceTable):
    """Kernels that a device ran, one row a kernel."""

    name = "kernels"
    kinds = ("kernel",)
    numbers = ("external", "correlation", "device", "stream", "registers", "shared", "occupancy", "graph_node")
    texts = ("grid", "block")
    columns: ClassVar[dict[str, str]] = {
        **TRACED,
        "external": "number of the operator that launched it",
        "correlation": "number of the call that launched it",
        "device": "number of the device",
        "stream": "number of the stream",
        "registers": "a thread",
        "shared": "bytes of shared memory a block",
        "occupancy": "estimated, percent; 0 means unknown for collectives",
        "graph_node": "node of a replayed CUDA graph, else -1",
        "grid": "blocks as [x, y, z]",
        "block": "threads as [x, y, z]",
    }
