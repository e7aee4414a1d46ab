"""Device memory by the line that asked for it, as a memory snapshot shows it."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from necropsy_parsers.records import Record
from necropsy_parsers.snapshot.model import MemorySnapshot

from necropsy.evidence import Table
from necropsy.evidence.memory_snapshots import SUPPLY
from necropsy.provenance.holders import part_of, user_frame


class LiveMemory(Struct, frozen=True):
    """What one stack holds."""

    rank: int | None
    input: str
    device: int
    when: str
    bytes: int
    blocks: int
    part: str
    file: str
    line: int | None
    function: str


class LiveMemories(Table[LiveMemory]):
    """One row a stack that holds memory when the snapshot was taken, and one a stack that held some at its peak."""

    name = "live_memory"
    row = LiveMemory
    accepts = (MemorySnapshot,)
    formats = ("memory_snapshot",)
    supply = SUPPLY
    columns: ClassVar[dict[str, str]] = {
        "rank": "rank of the process, as the file's name tells",
        "input": "the snapshot's file",
        "device": "number of the GPU in its process",
        "when": "end (the snapshot was taken) or peak (most was in use)",
        "bytes": "bytes that were asked for",
        "blocks": "number of blocks",
        "part": "what the stack says of it: weights, optimizer state, forward pass, backward pass; empty where nothing",
        "file": "of the innermost frame of the user's; empty where there is none",
        "line": "line there",
        "function": "function there",
    }

    def add(self, record: Record) -> None:
        """Take a snapshot."""
        assert isinstance(record, MemorySnapshot)
        peak = record.peak.holdings if record.peak is not None else ()
        for when, holdings in (("end", record.live), ("peak", peak)):
            for h in holdings:
                stack = record.stacks[h.stack]
                user = user_frame(stack)
                self.rows.append(
                    LiveMemory(
                        record.origin.rank, record.anchor.input, record.device, when, h.bytes, h.blocks, part_of(stack),
                        *((user.file, user.line, user.function) if user is not None else ("", None, "")),
                    )
                )  # fmt: skip
