"""What Nsight Compute and CUPTI printed about profiling that failed."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.ncu_notice import NcuNotice

from necropsy.evidence._records import COMMON, RecordTable


class NcuNotices(RecordTable[NcuNotice]):
    """One row a message; the same one of several processes is several rows."""

    name = "ncu_notices"
    row = NcuNotice
    accepts = (NcuNotice,)
    supply = "what ncu printed (its console output), or the job's log"
    columns: ClassVar[dict[str, str]] = COMMON | {
        "kind": "permission, busy, driver, unsupported, lock, failed, program, metrics, nothing, ending or other",
        "tool": "ncu, CUPTI, or the profiler where its words do not tell",
        "device": "number of the GPU, where told",
        "name": "kernel that could not be profiled",
        "code": "status with which the program ended",
        "names": "metrics that could not be collected",
        "detail": "its words",
    }
