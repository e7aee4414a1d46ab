"""Errors and warnings of NCCL."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.nccl_error import NcclError

from necropsy.evidence._records import COMMON, RecordTable


class NcclErrors(RecordTable[NcclError]):
    """One row an error."""

    name = "nccl_errors"
    row = NcclError
    accepts = (NcclError,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "duplicate-gpu, remote, cuda, system, usage, internal or aborted",
        "pair": "ranks on one GPU",
        "bus": "PCI bus id, hex",
        "peer": "address of the other end",
        "port": "its port",
        "why": "the system's words",
        "version": "NCCL version",
        "from_exception": "said by an exception",
    }
