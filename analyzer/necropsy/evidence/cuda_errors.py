"""Errors of the CUDA runtime and driver."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.cuda_error import CudaError

from necropsy.evidence._records import COMMON, RecordTable


class CudaErrors(RecordTable[CudaError]):
    """One row a reported error."""

    name = "cuda_errors"
    row = CudaError
    accepts = (CudaError,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "error": "CUDA's text",
        "name": "its symbol, if printed",
        "blocking": "raised by the failing launch itself: True, False, or None if the wording does not tell",
        "via": "torch, triton, runtime (before torch 1.5) or c++",
        "from_exception": "said by an exception",
    }
