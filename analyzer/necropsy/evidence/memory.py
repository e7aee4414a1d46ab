"""Allocations and their ends (profile_memory), one row each."""

from __future__ import annotations

from typing import ClassVar

from necropsy.evidence._trace_columns import TRACED, TraceTable


class Memory(TraceTable):
    """Allocations and their ends (profile_memory), one row each."""

    name = "memory"
    kinds = ("memory",)
    numbers = ("bytes", "address", "device_type", "device", "allocated", "reserved")
    columns: ClassVar[dict[str, str]] = {
        **TRACED,
        "bytes": "size; negative where it was given back",
        "address": "where",
        "device_type": "as c10 numbers it: 0 the host, 1 CUDA, 6 HIP",
        "device": "number of the device",
        "allocated": "bytes in use after it",
        "reserved": "bytes held from the driver after it",
    }
