"""What a memory snapshot says of a device: segments, live blocks by stack, the history, its peak, what was refused."""

from __future__ import annotations

from array import array
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.records import Frame, Record

ACTIONS: Final = (
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap",
    "snapshot", "oom", "other",
)  # fmt: skip
ALLOC, FREE_REQUESTED, FREE_COMPLETED = range(3)
OOM: Final = ACTIONS.index("oom")

Stack = tuple[Frame, ...]


class Holding(Struct, frozen=True):
    """Blocks allocated from one stack (index of the snapshot's `stacks`): bytes asked for, and their number."""

    stack: int
    bytes: int
    blocks: int


class Segment(Struct, frozen=True):
    """Memory that the allocator has from the driver, in bytes; `pool` is (0, 0) for the general one."""

    address: int
    total: int
    allocated: int
    active: int
    stream: int
    kind: str
    pool: tuple[int, int]
    expandable: bool


class Refused(Struct, frozen=True):
    """An allocation that failed: bytes asked for, bytes that the driver said were free (None: not told), its stack."""

    asked: int
    free: int | None
    stack: int
    time: int


class Peak(Struct, frozen=True):
    """The moment of the history at which most was allocated; what was freed since and is older than it has stack 0."""

    bytes: int
    event: int
    time: int
    holdings: tuple[Holding, ...]


def _longs() -> array[int]:
    return array("q")


def _ints() -> array[int]:
    return array("i")


class History(Struct, frozen=True):
    """The allocator's events, oldest first: code of `ACTIONS`, address, bytes, us since 1970 (0: not told), stack."""

    action: bytes = b""
    address: array[int] = field(default_factory=_longs)
    size: array[int] = field(default_factory=_longs)
    time: array[int] = field(default_factory=_longs)
    stack: array[int] = field(default_factory=_ints)

    def __len__(self) -> int:
        return len(self.action)


class MemorySnapshot(Record, frozen=True):
    """One device of a snapshot. `stacks` are innermost first, as torch writes them; the first is the empty one.

    `live` are the blocks in use when it was taken, by stack, the most bytes first; `waiting` the
    bytes of those among them that only wait for a stream. `whole`: nothing of the file was lost.
    """

    device: int
    stacks: tuple[Stack, ...]
    segments: tuple[Segment, ...]
    live: tuple[Holding, ...]
    waiting: int
    history: History
    peak: Peak | None
    refused: tuple[Refused, ...]
    settings: dict[str, str]
    whole: bool = True

    @property
    def reserved(self) -> int:
        """Bytes that the allocator has from the driver."""
        return sum(s.total for s in self.segments)

    @property
    def allocated(self) -> int:
        """Bytes of live blocks."""
        return sum(h.bytes for h in self.live)
