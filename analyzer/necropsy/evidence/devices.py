"""GPUs that a trace names."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from necropsy_parsers.records import Record
from necropsy_parsers.trace.model import Trace

from necropsy.evidence import Table
from necropsy.evidence._trace_columns import SUPPLY


class DeviceRow(Struct, frozen=True):
    """A GPU of `deviceProperties`."""

    rank: int
    input: str
    number: int
    name: str
    memory: int
    compute_capability: str
    units: int


class Devices(Table[DeviceRow]):
    """One row a GPU that a trace lists; a host's idle GPUs are among them."""

    name = "devices"
    row = DeviceRow
    accepts = (Trace,)
    formats = ("kineto",)
    supply = SUPPLY
    columns: ClassVar[dict[str, str]] = {
        "rank": "rank of the process, -1 where neither trace nor name tells",
        "input": "the trace's file",
        "number": "of the device on its host",
        "name": "as the driver calls it",
        "memory": "bytes",
        "compute_capability": "major.minor; AMD's mean nothing",
        "units": "SMs or CUs",
    }

    def add(self, record: Record) -> None:
        """One row a device."""
        assert isinstance(record, Trace)
        rank = -1 if record.origin.rank is None else record.origin.rank
        for d in record.meta.devices:
            self.rows.append(
                DeviceRow(rank, record.anchor.input, d.number, d.name, d.memory, f"{d.major}.{d.minor}", d.units)
            )
