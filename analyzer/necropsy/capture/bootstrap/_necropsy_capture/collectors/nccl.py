"""NCCL's flight recorder: the last collectives of each rank, dumped when one does not come back.

The names of its variables changed in torch 2.8 (pytorch/pytorch#152563), and each release warns about the other's, so
that they are set here, where the release is known, and before torch reads them. What the user has set stays.
"""

from __future__ import annotations

import os
import re
from importlib import metadata

from _necropsy_capture.process import Process

ENTRIES = 2000  # what torch's tutorial recommends, and its default since 2.10: a few megabytes a rank


def before(process: Process) -> None:
    """Set the variables of this release; the dump goes to `nccl_trace_rank_N` in the run folder."""
    release = _release()
    if release < (2, 2):
        process.note("nccl", "left", why="torch has a flight recorder since 2.2")
        return
    prefix = os.path.join(process.folder, "nccl_trace_rank_")
    if release >= (2, 8):
        names = {"TORCH_FR_BUFFER_SIZE": str(ENTRIES), "TORCH_FR_DUMP_TEMP_FILE": prefix}
        older = {"TORCH_FR_BUFFER_SIZE": "TORCH_NCCL_TRACE_BUFFER_SIZE"}
        older["TORCH_FR_DUMP_TEMP_FILE"] = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
    else:
        names = {"TORCH_NCCL_TRACE_BUFFER_SIZE": str(ENTRIES), "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": prefix}
        older = {}
    names["TORCH_NCCL_DUMP_ON_TIMEOUT"] = "1"
    process.set_variables("nccl", {k: v for k, v in names.items() if older.get(k, k) not in os.environ})


def start(process: Process) -> None:
    """Nothing is left to do after the import."""


def _release() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", metadata.version("torch"))
    return (int(found[1]), int(found[2])) if found else (0, 0)
