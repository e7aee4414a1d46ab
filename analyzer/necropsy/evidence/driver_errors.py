"""Device errors that the driver or the kernel reported."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.driver_error import DriverError

from necropsy.evidence._records import COMMON, RecordTable


class DriverErrors(RecordTable[DriverError]):
    """One row an Xid, SXid, lost device, fatal bus error or thermal shutdown."""

    name = "driver_errors"
    row = DriverError
    accepts = (DriverError,)
    supply = "the kernel's log of the node (dmesg -T, journalctl -k)"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "xid, sxid, lost, pcie or heat",
        "code": "number of the (S)Xid, or None",
        "bus": "PCI address without function, or empty",
        "process": "process id that the driver names, or None",
        "name": "its name, or empty",
        "detail": "the driver's words",
        "fatal": "an SXid that says so, or another fatal kind",
    }
