"""Failed calls of CUDA libraries: cuBLAS, cuDNN, cuSOLVER, cuSPARSE, cuFFT statuses.

RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`
RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED
RuntimeError: GET was unable to find an engine to execute this computation
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message, is_label
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "library_status"
TITLE: Final = "Statuses of cuBLAS, cuDNN and their relatives"
TRIGGERS: Final = (b"_STATUS_", b"unable to find an engine", b"cufftResult", b"CUFFT_")
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`": {
        "library": "cuBLAS",
        "status": "CUBLAS_STATUS_ALLOC_FAILED",
        "call": "cublasCreate",
    },
}
_STATUS: Final = lazily(
    r"\b(?P<status>(?P<lib>CUBLAS|CUBLASLT|CUDNN|CUSOLVER|CUSPARSE|NVJPEG|CUTENSOR)_STATUS_(?P<what>[A-Z_]+))"
)
_CALL: Final = lazily(r"when calling [`'\"]?(?P<call>\w+)")
_NAMES: Final = {
    "CUBLAS": "cuBLAS",
    "CUBLASLT": "cuBLASLt",
    "CUDNN": "cuDNN",
    "CUSOLVER": "cuSOLVER",
    "CUSPARSE": "cuSPARSE",
}


class LibraryStatus(Record, frozen=True):
    """One failed call: `library`, `status` (its symbol, or torch's sentence), `call` if told."""

    library: str
    status: str
    call: str
    from_exception: bool


def read(message: Message) -> Iterator[LibraryStatus]:
    """The status that `message` reports, if it is an error and not a list of them."""
    text = message.text
    m = _STATUS.search(text)
    if m is not None and m["what"] != "SUCCESS":
        library, status = _NAMES.get(m["lib"], m["lib"]), m["status"]
    elif "unable to find an engine" in text:
        library, status = "cuDNN", "unable to find an engine"
    else:
        return
    if message.exception is None and not (m is not None and is_label(message.first[: m.start()])):
        return  # tables of statuses, warnings of calls that are tried again another way
    call = _CALL.search(text)
    yield LibraryStatus(
        message.anchor,
        library,
        status,
        call["call"] if call else "",
        message.exception is not None,
        **message.common,
    )
