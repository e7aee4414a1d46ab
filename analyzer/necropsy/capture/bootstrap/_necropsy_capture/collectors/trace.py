"""The compiler's structured log (TORCH_TRACE), which maps kernels to lines: one file a process in `torch_trace/`.

Torch reads the variable when it is imported (2.3 and newer; older ones pass it over). What the user has set stays.
"""

from __future__ import annotations

import logging
import os

from _necropsy_capture.process import Process

MOST_BYTES = 1 << 30  # of one process; a job that compiles without end would fill the disk
_HEAD = 300  # bytes of an entry without its payload, about


class _Bound(logging.Filter):
    """Lets entries through until their payloads have come to a bound, which is told."""

    def __init__(self, process: Process, most: int) -> None:
        super().__init__()
        self._process = process
        self._left = most

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the entry is written."""
        if self._left <= 0:
            return False
        self._left -= _HEAD + len(getattr(record, "payload", None) or "")
        if self._left <= 0:
            self._process.note("trace", "limit", why="its file in torch_trace/ reached its bound")
        return True


def before(process: Process) -> None:
    """Name the folder."""
    process.set_variables("trace", {"TORCH_TRACE": os.path.join(process.folder, "torch_trace")})


def start(process: Process) -> None:
    """Bound what is written, if it is written for this run."""
    if os.environ.get("TORCH_TRACE", "").startswith(process.folder):
        bound = _Bound(process, int(process.option("trace_bytes", MOST_BYTES)))
        for handler in logging.getLogger("torch.__trace").handlers:
            handler.addFilter(bound)
