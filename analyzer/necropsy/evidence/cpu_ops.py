"""Operators on the host, one row a call."""

from __future__ import annotations

from typing import ClassVar

from necropsy.evidence._trace_columns import TRACED, TraceTable


class CpuOps(TraceTable):
    """Operators on the host, one row a call."""

    name = "cpu_ops"
    kinds = ("op",)
    numbers = ("external", "sequence", "forward_thread")
    texts = ("dims", "types", "strides", "values")
    columns: ClassVar[dict[str, str]] = {
        **TRACED,
        "external": "number that calls and kernels refer to",
        "sequence": "number of the autograd node",
        "forward_thread": "thread of the forward pass, of backward operators",
        "dims": "shapes of the inputs (record_shapes)",
        "types": "their types",
        "strides": "their strides",
        "values": "scalar inputs",
    }
