"""Refusals of DDP's reducer and of collective checks."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.ddp_error import DdpError

from necropsy.evidence._records import COMMON, RecordTable


class DdpErrors(RecordTable[DdpError]):
    """One row a refusal."""

    name = "ddp_errors"
    row = DdpError
    accepts = (DdpError,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "unused, twice, collectives or model",
        "rank": "rank named",
        "names": "parameters by name",
        "indices": "parameters by index",
        "calls": "(rank, sequence, operation, shape, dtype) of mismatching collectives",
        "text": "its first sentence",
    }
