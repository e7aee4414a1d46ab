"""Memory snapshots of torch's CUDA allocator: one row a device of a snapshot."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from necropsy_parsers.records import Record
from necropsy_parsers.snapshot.model import MemorySnapshot

from necropsy.evidence import Table

SUPPLY = (
    "a memory snapshot: necropsy capture --why memory, or torch.cuda.memory._record_memory_history() and "
    "torch.cuda.memory._dump_snapshot('snapshot.pickle')"
)


class SnapshotRow(Struct, frozen=True):
    """A device of a snapshot in short."""

    rank: int | None
    input: str
    device: int
    reserved: int
    allocated: int
    waiting: int
    peak: int | None
    refused: int
    segments: int
    stacks: int
    events: int
    expandable: bool
    whole: bool


class MemorySnapshots(Table[SnapshotRow]):
    """One row a device of a snapshot; `snapshots` are the records."""

    name = "memory_snapshots"
    row = SnapshotRow
    accepts = (MemorySnapshot,)
    formats = ("memory_snapshot",)
    supply = SUPPLY
    columns: ClassVar[dict[str, str]] = {
        "rank": "rank of the process, as the file's name tells",
        "input": "the snapshot's file",
        "device": "number of the GPU in its process",
        "reserved": "bytes that the allocator has from the driver",
        "allocated": "bytes that were asked for and are in use",
        "waiting": "bytes of those that only wait for a stream",
        "peak": "bytes in use at the highest point of the history; empty without one",
        "refused": "allocations refused in the history",
        "segments": "pieces that the allocator has from the driver",
        "stacks": "different stacks of allocations",
        "events": "events of the history",
        "expandable": "whether segments grow (expandable_segments)",
        "whole": "whether all of the file was read",
    }

    def __init__(self) -> None:
        super().__init__()
        self.snapshots: list[MemorySnapshot] = []

    def add(self, record: Record) -> None:
        """Take a snapshot."""
        assert isinstance(record, MemorySnapshot)
        self.snapshots.append(record)
        self.rows.append(
            SnapshotRow(
                record.origin.rank, record.anchor.input, record.device, record.reserved, record.allocated,
                record.waiting, None if record.peak is None else record.peak.bytes, len(record.refused),
                len(record.segments), len(record.stacks) - 1, len(record.history),
                any(s.expandable for s in record.segments), record.whole,
            )
        )  # fmt: skip
