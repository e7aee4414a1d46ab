"""Host memory: kill records and refused allocations."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.host_memory import HostMemory

from necropsy.evidence._records import COMMON, RecordTable


class HostMemoryRecords(RecordTable[HostMemory]):
    """One row a record."""

    name = "host_memory"
    row = HostMemory
    accepts = (HostMemory,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "kill or allocation",
        "by": "who says so",
        "pid": "victim or None",
        "name": "victim's command",
        "bytes": "resident (kill) or asked for (allocation)",
        "cgroup": "a limit of a group, not the machine's",
        "from_exception": "said by an exception",
    }
