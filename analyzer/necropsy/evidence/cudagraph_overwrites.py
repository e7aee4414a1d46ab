"""Outputs of CUDA graphs that were read after a later run had overwritten them."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.cudagraph import CudagraphOverwrite

from necropsy.evidence._records import COMMON, RecordTable


class CudagraphOverwrites(RecordTable[CudagraphOverwrite]):
    """One row a refusal."""

    name = "cudagraph_overwrites"
    row = CudagraphOverwrite
    accepts = (CudagraphOverwrite,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "frames": "stack of the compiled code that made the output, innermost last",
        "gradient": "the message says that it is a gradient (torch 2.13)",
    }
