"""Reformats that TensorRT's builder put in."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.tensorrt_log.records import TrtReformat

from necropsy.evidence._records import COMMON, RecordTable


class TrtReformats(RecordTable[TrtReformat]):
    """One row a reformat that a verbose log tells."""

    name = "trt_reformats"
    row = TrtReformat
    accepts = (TrtReformat,)
    formats = ("log",)
    supply = "a verbose log of a TensorRT build (trtexec --verbose)"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "build": "number of the build in its input, from 0",
        "layer": "whose tensor it changes",
        "tensor": "the tensor",
        "side": "input or output of the layer",
        "number": "number of that input or output",
        "source": "type and strides before",
        "target": "type and strides after",
        "ms": "milliseconds, as timed when the engine was built; None where that pair of formats was not timed",
    }

    def covered(self, formats: frozenset[str]) -> bool:
        """Only verbose logs tell."""
        return bool(self.rows)
