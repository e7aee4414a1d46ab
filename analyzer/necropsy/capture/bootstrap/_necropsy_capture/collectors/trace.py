"""The compiler's structured log (TORCH_TRACE), which maps kernels to lines: one file a process in `torch_trace/`.

Torch reads the variable when it is imported (2.3 and newer; older ones pass it over). What the user has set stays.
"""

from __future__ import annotations

import os

from _necropsy_capture.process import Process


def before(process: Process) -> None:
    """Name the folder."""
    process.set_variables("trace", {"TORCH_TRACE": os.path.join(process.folder, "torch_trace")})
