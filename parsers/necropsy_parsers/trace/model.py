"""A trace as it was read: columns by kind, and what its head and tail say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from necropsy_parsers.records import Record

if TYPE_CHECKING:
    from necropsy_parsers.trace.columns import Columns


class Device(Struct, frozen=True):
    """A GPU as `deviceProperties` tells it; 0 where it does not."""

    number: int
    name: str
    memory: int = 0  # bytes
    major: int = 0
    minor: int = 0
    units: int = 0  # SMs or CUs
    warp: int = 0
    threads: int = 0  # resident on a unit


class TraceGroup(Struct, frozen=True):
    """A process group of `distributedInfo`."""

    name: str
    description: str
    backend: str
    size: int
    ranks: tuple[int, ...]


class TraceMeta(Struct, frozen=True):
    """What stands around the events.

    `base` is what times count from, in ns since 1970 (0: they are absolute, or nobody knows). `rank` and `world` are of
    `distributedInfo`; `options` are the profiler's switches that are on (`with_stack`,
    `record_shapes`, `profile_memory`, `with_modules`, `with_flops`).
    """

    devices: tuple[Device, ...] = ()
    rank: int | None = None
    world: int | None = None
    backend: str = ""
    groups: tuple[TraceGroup, ...] = ()
    base: int = 0
    options: frozenset[str] = frozenset()
    driver: int = 0
    runtime: int = 0
    schema: int | None = None


class Losses(Struct):
    """Events that were repaired or lost, and whether the document ends early."""

    repaired: int = 0
    dropped: int = 0
    cut: bool = False
    args: int = 0  # events read without their arguments
    times: int = 0  # events left out, since their times cannot be


class Trace(Record, frozen=True, eq=False, weakref=True):
    """One trace. `kinds` maps a kind's name (see `trace.kinds`) to its columns; times are ns since `meta.base`."""

    meta: TraceMeta
    kinds: dict[str, Columns]
    names: list[str]
    processes: list[int | str]
    threads: list[int | str]
    texts: list[bytes]
    losses: Losses = field(default_factory=Losses)
    events: int = 0

    def text(self, index: int) -> Any:
        """The decoded JSON of a text column's value; None for none and for what is no JSON."""
        import msgspec

        try:
            return msgspec.json.decode(self.texts[index]) if index > 0 else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
