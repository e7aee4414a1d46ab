"""Memory that TensorRT's builder tells."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.tensorrt_log.records import TrtMemory

from necropsy.evidence._records import COMMON, RecordTable


class TrtMemoryRows(RecordTable[TrtMemory]):
    """One row an amount."""

    name = "trt_memory"
    row = TrtMemory
    accepts = (TrtMemory,)
    formats = ("log",)
    supply = "the log of a TensorRT build"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "build": "number of the build in its input, from 0",
        "what": "host persistent, device persistent, scratch, activation, weights, peak host or peak device",
        "layer": "of which layer, empty: of the engine",
        "bytes": "how much",
    }

    def covered(self, formats: frozenset[str]) -> bool:
        """Only what TensorRT wrote tells."""
        return bool(self.rows)
