"""Copies and memsets, one row each."""

from __future__ import annotations

from typing import ClassVar

from necropsy.evidence._trace_columns import TRACED, TraceTable


class Copies(TraceTable):
    """Copies and memsets, one row each."""

    name = "copies"
    kinds = ("copy", "memset")
    numbers = ("external", "correlation", "device", "stream", "bytes")
    columns: ClassVar[dict[str, str]] = {
        **TRACED,
        "external": "number of the operator that asked for it",
        "correlation": "number of the call",
        "device": "number of the device",
        "stream": "number of the stream",
        "bytes": "size",
    }
