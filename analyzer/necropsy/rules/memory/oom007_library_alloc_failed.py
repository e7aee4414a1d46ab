"""cuBLAS or cuDNN could not allocate its workspace

What it means
    A CUDA library asked for device memory and got none. It is an out-of-memory error in
    other words: the library allocates outside torch's allocator, from what torch left.

Why it happens
    The device is full, by this process or another; the library's handle is created at the
    first matrix product, after torch has taken nearly everything.

How to confirm
    `nvidia-smi` at that moment; `torch.cuda.mem_get_info()` right before the line.

How to fix
    The same as for device-out-of-memory: leave room (smaller batch, fewer processes on the
    GPU). `torch.cuda.empty_cache()` before the first call helps where torch merely holds
    cached blocks.

Limits
    CUBLAS_STATUS_NOT_INITIALIZED and CUBLAS_STATUS_ALLOC_FAILED can also follow a failed
    kernel (an index out of range); such an error before it is the root.

References
    - https://docs.nvidia.com/cuda/cublas/index.html#cublasstatus-t
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.claim import told
from necropsy.conditions import DEVICE_FAULT, DEVICE_FULL, LIBRARY_CLASH, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.library_statuses import LibraryStatuses
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule

_ROOM: Final = Fix("Leave room on the device: a smaller batch, or fewer processes on this GPU", "config")
_WHO: Final = Fix("See who holds the GPU", "command", command="nvidia-smi")
_CPU: Final = Fix(
    "If the device was not full, run the same batch on the CPU: an index out of range raises there", "investigate"
)


@rule("OOM007", "library-alloc-failed", Severity.FATAL)
def check(statuses: LibraryStatuses, exceptions: Exceptions, activity: Activity) -> Iterator[Finding]:
    """Statuses that mean a refused allocation."""
    for s in statuses:
        refused = "ALLOC_FAILED" in s.status
        if not refused and "CUBLAS_STATUS_NOT_INITIALIZED" not in s.status:
            continue
        call = f" in `{s.call}`" if s.call else ""
        message = f"{s.library} could not allocate device memory{call} ({s.status}): the device is out of memory."
        if not refused:
            message = (
                f"{s.library} could not be initialised{call} ({s.status}); most often the device is out of memory."
            )
        yield from told(
            s,
            exceptions,
            message,
            Severity.ERROR,
            activity=activity,
            facts={"status": s.status, "library": s.library},
            fixes=(_ROOM, _WHO, _CPU),
            confidence=Confidence.LIKELY if refused else Confidence.POSSIBLE,
            shows=frozenset({DEVICE_FULL, DEVICE_FAULT, LIBRARY_CLASH}),
            leaves=frozenset({DEVICE_FULL, PROCESS_DIED}),
        )
