"""Pieces of device memory that torch's CUDA allocator has from the driver, one row a piece."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from necropsy_parsers.records import Record
from necropsy_parsers.snapshot.model import MemorySnapshot

from necropsy.evidence import Table
from necropsy.evidence.memory_snapshots import SUPPLY


class MemorySegment(Struct, frozen=True):
    """One segment."""

    rank: int | None
    input: str
    device: int
    address: int
    total: int
    allocated: int
    active: int
    stream: int
    kind: str
    pool: str
    expandable: bool


class MemorySegments(Table[MemorySegment]):
    """One row a segment of a snapshot."""

    name = "memory_segments"
    row = MemorySegment
    accepts = (MemorySnapshot,)
    formats = ("memory_snapshot",)
    supply = SUPPLY
    columns: ClassVar[dict[str, str]] = {
        "rank": "rank of the process, as the file's name tells",
        "input": "the snapshot's file",
        "device": "number of the GPU in its process",
        "address": "address on the device",
        "total": "bytes",
        "allocated": "bytes in use",
        "active": "bytes in use or waiting for a stream",
        "stream": "the stream that it serves",
        "kind": "small or large (above 1 MiB)",
        "pool": "number of the private pool (of a CUDA graph); 0.0 is the general one",
        "expandable": "whether it grows (expandable_segments)",
    }

    def add(self, record: Record) -> None:
        """Take a snapshot."""
        assert isinstance(record, MemorySnapshot)
        for s in record.segments:
            self.rows.append(
                MemorySegment(
                    record.origin.rank, record.anchor.input, record.device, s.address, s.total, s.allocated, s.active,
                    s.stream, s.kind, f"{s.pool[0]}.{s.pool[1]}", s.expandable,
                )
            )  # fmt: skip
