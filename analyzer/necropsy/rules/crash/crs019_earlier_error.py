"""An error that only repeats an earlier one

What it means
    CUDA, NCCL or CUDA-graph capture refuse to work because something failed before. The message
    names no cause of its own.

Why it happens
    A kernel, an allocation or a capture failed; the error was swallowed, or is printed
    elsewhere.

How to confirm
    Read what stands before it, in all streams and ranks; run with CUDA_LAUNCH_BLOCKING=1.

How to fix
    Mend the earlier error.

Limits
    If the inputs hold no earlier error the cause is undetermined.

References
    - https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception
from necropsy.conditions import DEVICE_FAULT, DEVICE_FULL, PROCESS_DIED
from necropsy.evidence.exceptions import Exceptions
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule

_EARLIER: Final = lazily(
    r"due to a previous error during capture|operation would make the legacy stream depend on a capturing"
    r"|ncclUnhandledCudaError|unhandled cuda error|Cuda failure (?:\d+ )?'"
    r"|CUDA error: (?:unknown error|initialization error)$"
)
_BLOCKING: Final = Fix(
    "Run once more with CUDA_LAUNCH_BLOCKING=1 and read the first error",
    "env",
    "safe",
    "CUDA_LAUNCH_BLOCKING=1 python train.py",
)


@rule("CRS019", "earlier-error", Severity.FATAL)
def check(exceptions: Exceptions) -> Iterator[Finding]:
    """Exceptions that say that something failed before."""
    for row in exceptions:
        m = _EARLIER.search(row.text)
        if m is not None:
            yield from_exception(
                row,
                (
                    f'"{m[0].strip()}": this error only repeats an earlier one, which is the cause; '
                    "the log does not show it (undetermined)."
                ),
                confidence=Confidence.POSSIBLE,
                facts={"error": row.message[:200]},
                fixes=(Fix("Look for the first error, in the streams of all ranks", "investigate"), _BLOCKING),
                shows=frozenset({DEVICE_FAULT, DEVICE_FULL, PROCESS_DIED}),
            )
