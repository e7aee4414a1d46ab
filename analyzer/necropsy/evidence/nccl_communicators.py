"""Communicators that ranks report (NCCL_DEBUG=INFO)."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.nccl_error import NcclCommunicator

from necropsy.evidence._records import COMMON, RecordTable


class NcclCommunicators(RecordTable[NcclCommunicator]):
    """One row a report."""

    name = "nccl_communicators"
    row = NcclCommunicator
    accepts = (NcclCommunicator,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "rank": "rank in the communicator",
        "nranks": "its size",
        "device": "CUDA device index",
        "bus": "PCI bus id, hex",
    }
