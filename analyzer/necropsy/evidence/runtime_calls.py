"""Calls of the CUDA or HIP runtime and driver, one row a call."""

from __future__ import annotations

from typing import ClassVar

from necropsy.evidence._trace_columns import TRACED, TraceTable


class RuntimeCalls(TraceTable):
    """Calls of the CUDA or HIP runtime and driver, one row a call."""

    name = "runtime_calls"
    kinds = ("call",)
    numbers = ("external", "correlation", "stream")
    columns: ClassVar[dict[str, str]] = {
        **TRACED,
        "external": "number of the operator around it",
        "correlation": "number that its work on the device carries",
        "stream": "number of the stream, where told",
    }
