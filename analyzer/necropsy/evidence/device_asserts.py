"""Assertions that failed inside kernels."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.device_assert import DeviceAssert

from necropsy.evidence._records import COMMON, RecordTable


class DeviceAsserts(RecordTable[DeviceAssert]):
    """One row a thread's message; identical ones are folded by the reader after 200."""

    name = "device_asserts"
    row = DeviceAssert
    accepts = (DeviceAssert,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "file": "source of the kernel",
        "line": "line of the assertion",
        "kernel": "function name",
        "condition": "the asserted condition",
        "block": "block index",
        "thread": "thread index",
    }
