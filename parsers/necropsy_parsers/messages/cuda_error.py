"""CUDA (and HIP) runtime and driver errors, as torch, Triton and C++ code print them.

    torch.AcceleratorError: CUDA error: device-side assert triggered
    CUDA kernel errors might be asynchronously reported at some other API call, ...
    RuntimeError: cuda runtime error (700) : an illegal memory access was encountered at ...
    RuntimeError: Triton Error [CUDA]: operation not supported on global/shared address space

torch appends the "might be asynchronously reported" sentence only when
`CUDA_LAUNCH_BLOCKING` is not set (`c10/cuda/CUDAMiscFunctions.cpp`, since 1.8): an
error with the `Compile with TORCH_USE_CUDA_DSA` sentence but without that one was raised
at the very launch that failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message, is_label
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "cuda_error"
TITLE: Final = "CUDA runtime and driver errors"
TRIGGERS: Final = (
    b"CUDA error",
    b"cuda runtime error",
    b"Triton Error",
    b"HIP error",
    b"CUDA driver error",
    b"cudaError",
    b"CUDA_ERROR_",
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "RuntimeError: CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously "
    "reported at some other API call, so the stacktrace below might be incorrect.": {
        "error": "an illegal memory access was encountered",
        "blocking": False,
    },
    "RuntimeError: cuda runtime error (59) : device-side assert triggered at /pytorch/aten/src/THC/x.cu:110": {
        "error": "device-side assert triggered",
        "blocking": None,
    },
}

_ERROR: Final = lazily(
    r"(?:(?P<api>CUDA|HIP)(?: driver)? error: ?|cuda runtime error \(\d+\) ?: ?|Triton Error \[(?:CUDA|HIP)\]: ?)"
    r"(?P<error>[^\n(]+?)(?= at /| \(\w+ at |\. ?$|$|\n| \()"
)
_NAME: Final = lazily(r"\b(?P<name>(?:cuda|hip)Error[A-Z]\w+|CUDA_ERROR_[A-Z_]+)\b")
_ASYNC: Final = "asynchronously reported at some other API call"
_DSA: Final = "TORCH_USE_CUDA_DSA"


class CudaError(Record, frozen=True):
    """One reported error. `error` is CUDA's text, `name` its symbol if printed.

    `blocking`: True if the error was raised by the launch that failed
    (CUDA_LAUNCH_BLOCKING), False if it may belong to earlier work, None if the wording
    does not tell. `via` is `torch`, `triton`, `runtime` (old THC wording) or `c++`.
    """

    error: str
    name: str
    blocking: bool | None
    via: str
    from_exception: bool


def read(message: Message) -> Iterator[CudaError]:
    """The error that `message` reports, if it does."""
    m = _ERROR.search(message.text)
    if m is None or (message.exception is None and not is_label(message.text[: m.start()].rsplit("\n", 1)[-1])):
        return
    text = message.text
    name = _NAME.search(text)
    blocking = False if _ASYNC in text else True if _DSA in text else None
    via = "triton" if "Triton Error" in m[0] else "runtime" if "runtime error" in m[0] else "torch"
    if message.exception is None:
        via = "c++"
    yield CudaError(
        message.anchor,
        error=m["error"].strip(" .`"),
        name=name["name"] if name else "",
        blocking=blocking,
        via=via,
        from_exception=message.exception is not None,
        **message.common,
    )
