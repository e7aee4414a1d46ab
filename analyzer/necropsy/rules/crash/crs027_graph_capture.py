"""A call that is forbidden while a CUDA graph is captured

What it means
    While a stream is captured into a CUDA graph nothing runs on it. A call that waits for the GPU, asks
    for its state or copies to pageable memory cannot be recorded; CUDA ends the capture, and all that
    comes after fails, too.

Why it happens
    `.item()`, `.cpu()`, `print` of a tensor or `if tensor:` in the captured code; something that is set up
    at its first use (a cuBLAS handle, autotuning) was not warmed up; another thread used CUDA meanwhile.

How to confirm
    The traceback's first exception is at the forbidden call; those that follow come from the ended capture.

How to fix
    Keep such calls out of what is captured, and run it a few times on a side stream before.

Limits
    With calls of another thread (NCCL's watchdog, pinning of a DataLoader's batches) the line is that of the
    capture, not of the call.

References
    - https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
    - https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html (cudaErrorStreamCapture...)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception
from necropsy.evidence.exceptions import Exceptions
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule

_CAPTURING: Final = lazily(
    r"operation not permitted when stream is capturing|operation failed due to a previous error during capture"
    r"|(?:Cannot copy between CPU and CUDA tensors|Cannot call \S+) during CUDA graph capture"
    r"|operation would (?:result in a merge|make the legacy stream depend on a capturing)"
    r"|cudaErrorStreamCapture(?:Unsupported|Invalidated|Merge|Implicit)"
)
_FIXES: Final = (
    Fix("Keep host reads (`.item()`, `.cpu()`, print of a tensor, `if tensor:`) out of what is captured", "code"),
    Fix("Run the captured code a few times on a side stream first, so that all that is set up lazily is there", "code"),
    Fix(
        "If another thread made the call (NCCL's watchdog, pinning of batches), forbid it to the capturing thread only",
        "code",
        command='torch.cuda.graph(g, capture_error_mode="thread_local")',
    ),
)


@rule("CRS027", "graph-capture", Severity.FATAL)
def check(exceptions: Exceptions) -> Iterator[Finding]:
    """One finding a traceback."""
    for row in exceptions:
        if _CAPTURING.search(row.text) is not None:
            yield from_exception(
                row,
                "While a CUDA graph was captured came a call that waits for the GPU, queries it or cannot be recorded: "
                "the capture failed.",
                facts={"error": row.main.message[:300]},
                fixes=_FIXES,
            )
