"""Errors of gloo and MPI transports."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.gloo_error import TransportError

from necropsy.evidence._records import COMMON, RecordTable


class TransportErrors(RecordTable[TransportError]):
    """One row an error."""

    name = "transport_errors"
    row = TransportError
    accepts = (TransportError,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "closed, timeout or barrier",
        "why": "its words",
        "peer": "address of the other end",
        "waited_ms": "limit of a timeout, ms",
        "absent": "ranks that a monitored barrier names",
        "from_exception": "said by an exception",
    }
