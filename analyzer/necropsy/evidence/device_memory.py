"""Refused allocations of device memory."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.device_memory import OutOfDeviceMemory

from necropsy.evidence._records import COMMON, RecordTable


class DeviceMemory(RecordTable[OutOfDeviceMemory]):
    """One row a refused allocation; sizes in bytes, None where the wording gives none."""

    name = "device_memory"
    row = OutOfDeviceMemory
    accepts = (OutOfDeviceMemory,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "backend": "CUDA, HIP, XPU, MPS, ...",
        "device": "as printed: GPU 0",
        "tried": "bytes asked for",
        "total": "bytes of the device",
        "free": "bytes free on the device",
        "in_use": "bytes held by this process, context included",
        "allocated": "bytes in tensors",
        "unallocated": "bytes reserved by torch and free inside its blocks",
        "pools": "bytes in CUDA-graph pools",
        "allowed": "bytes this process may use (memory fraction)",
        "others": "(pid, bytes) of other processes named",
        "absurd": "a size that no device has",
        "old": "the wording to torch 2.0",
        "from_exception": "said by an exception",
    }
