"""The history of torch's CUDA allocator in a memory snapshot, one row an event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct

from necropsy_parsers.records import Record
from necropsy_parsers.snapshot.model import ACTIONS, MemorySnapshot

from necropsy.evidence import Table
from necropsy.evidence.memory_snapshots import SUPPLY
from necropsy.provenance.holders import user_frame


class MemoryEvent(Struct, frozen=True):
    """One event."""

    rank: int | None
    input: str
    device: int
    time: int
    action: str
    address: int
    bytes: int
    file: str
    line: int | None
    function: str


class MemoryHistory(Table[MemoryEvent]):
    """One row an event; rows are made when somebody asks for them."""

    name = "memory_history"
    row = MemoryEvent
    accepts = (MemorySnapshot,)
    formats = ("memory_snapshot",)
    supply = SUPPLY
    columns: ClassVar[dict[str, str]] = {
        "rank": "rank of the process, as the file's name tells",
        "input": "the snapshot's file",
        "device": "number of the GPU in its process",
        "time": "us since 1970; 0 where the release tells none",
        "action": "alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, segment_unmap, oom",
        "address": "address on the device; 0 of a refused allocation",
        "bytes": "bytes asked for",
        "file": "of the innermost frame of the user's; empty where there is none",
        "line": "line there",
        "function": "function there",
    }

    def __init__(self) -> None:
        super().__init__()
        self._snapshots: list[MemorySnapshot] = []

    def add(self, record: Record) -> None:
        """Take a snapshot."""
        assert isinstance(record, MemorySnapshot)
        self._snapshots.append(record)

    def __len__(self) -> int:
        return sum(len(s.history) for s in self._snapshots)

    def __iter__(self) -> Iterator[MemoryEvent]:
        for s in self._snapshots:
            users = [user_frame(stack) for stack in s.stacks]
            h = s.history
            for code, address, size, time, stack in zip(h.action, h.address, h.size, h.time, h.stack, strict=True):
                user = users[stack]
                where = (user.file, user.line, user.function) if user is not None else ("", None, "")
                yield MemoryEvent(
                    s.origin.rank, s.anchor.input, s.device, time, ACTIONS[code], address, size, *where
                )  # fmt: skip

    def frame(self):  # type: ignore[no-untyped-def]
        """The rows as a DataFrame with the documented columns."""
        self.rows = list(self)
        return super().frame()
