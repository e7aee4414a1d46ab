"""CUDA graphs that are used, but not as meant."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.cudagraph import CudagraphNotice

from necropsy.evidence._records import COMMON, RecordTable


class CudagraphNotices(RecordTable[CudagraphNotice]):
    """One row a notice."""

    name = "cudagraph_notices"
    row = CudagraphNotice
    accepts = (CudagraphNotice,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "sizes (one graph a size), pending (backward not called), rerecord (an address changed)",
        "count": "number of distinct sizes",
        "text": "the reason",
        "name": "the input whose address changed",
        "frames": "stack of the user's code, innermost last",
    }
