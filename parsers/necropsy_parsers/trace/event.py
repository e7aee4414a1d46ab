"""One event of a trace, decoded without its arguments, and the arguments of each kind.

The arguments stay raw in the first pass: what is wanted of them depends on the kind of
event, so that those of one kind are joined and decoded in a second call. Decoding the
sum of all arguments' fields for each event took a third longer (45 fields, of which a
Python frame has three).
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct, field

NO_ARGS: Final = Raw(b"{}")
ABSENT: Final = Raw(b"")
ZERO: Final = Raw(b"0")

# Values that the writers of one field disagree about: None, 7, "7", "stream 7", "0x0".
Mixed = int | float | str | bool | None


class Event(Struct, gc=False):
    """An event with a time in microseconds as a double: exact to the nanosecond below 2^43 us (101 days)."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str | None = -1
    tid: int | str | None = -1
    ts: float = 0.0
    dur: float = 0.0
    id: int | str | None = -1
    args: Raw = NO_ARGS


class ExactEvent(Struct, gc=False):
    """An event whose times are kept as they are written: absolute ones do not fit a double, others are strings."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str | None = -1
    tid: int | str | None = -1
    ts: Raw = ZERO
    dur: Raw = ZERO
    id: int | str | None = -1
    args: Raw = NO_ARGS


AnyEvent = Event | ExactEvent

EVENTS: Final = msgspec.json.Decoder(list[Event])
EXACT_EVENTS: Final = msgspec.json.Decoder(list[ExactEvent])


class NoArgs(Struct, gc=False):
    """Arguments of events of which none is wanted."""


class GpuArgs(Struct, gc=False):
    """Of kernels, copies and memsets; collectives carry theirs since torch 2.2."""

    external: Mixed = field(default=-1, name="External id")
    external_old: Mixed = field(default=-1, name="external id")  # until torch 1.10
    correlation: Mixed = -1
    device: Mixed = -1
    stream: Mixed = -1
    bytes: Mixed = -1
    grid: Raw = ABSENT
    block: Raw = ABSENT
    registers: Mixed = field(default=-1, name="registers per thread")
    shared: Mixed = field(default=-1, name="shared memory")
    occupancy: Mixed = field(default=-1, name="est. achieved occupancy %")
    graph_node: Mixed = field(default=-1, name="graph node id")
    collective: Raw = field(default=ABSENT, name="Collective name")
    nelems_in: Mixed = field(default=-1, name="In msg nelems")
    nelems_out: Mixed = field(default=-1, name="Out msg nelems")
    group_size: Mixed = field(default=-1, name="Group size")
    dtype: Raw = ABSENT
    group: Raw = field(default=ABSENT, name="Process Group Name")
    group_words: Raw = field(default=ABSENT, name="Process Group Description")
    group_ranks: Raw = field(default=ABSENT, name="Process Group Ranks")
    sequence: Mixed = field(default=-1, name="Seq")


class CallArgs(Struct, gc=False):
    """Of calls of the CUDA and HIP runtimes and drivers."""

    external: Mixed = field(default=-1, name="External id")
    external_old: Mixed = field(default=-1, name="external id")
    correlation: Mixed = -1
    stream: Mixed = -1


class OpArgs(Struct, gc=False):
    """Of operators and annotations."""

    external: Mixed = field(default=-1, name="External id")
    external_old: Mixed = field(default=-1, name="external id")
    sequence: Mixed = field(default=-1, name="Sequence number")
    forward_thread: Mixed = field(default=-1, name="Fwd thread id")
    # In the order of the writer: a key is looked for from the field behind the last one's (a quarter of the time).
    values: Raw = field(default=ABSENT, name="Concrete Inputs")
    types: Raw = field(default=ABSENT, name="Input type")
    strides: Raw = field(default=ABSENT, name="Input Strides")
    dims: Raw = field(default=ABSENT, name="Input Dims")
    dims_old: Raw = field(default=ABSENT, name="Input dims")  # until torch 1.12
    stack: Raw = field(default=ABSENT, name="Call stack")  # instead of Python frames until torch 2.0
    modules: Raw = field(default=ABSENT, name="Module Hierarchy")
    kernel_file: Raw = ABSENT
    collective: Raw = field(default=ABSENT, name="Collective name")
    nelems_in: Mixed = field(default=-1, name="In msg nelems")
    nelems_out: Mixed = field(default=-1, name="Out msg nelems")
    group_size: Mixed = field(default=-1, name="Group size")
    dtype: Raw = ABSENT
    group: Raw = field(default=ABSENT, name="Process Group Name")


class FrameArgs(Struct, gc=False):
    """Of Python frames."""

    number: Mixed = field(default=-1, name="Python id")
    parent: Mixed = field(default=-1, name="Python parent id")
    module: Mixed = field(default=-1, name="Python module id")


class MemoryArgs(Struct, gc=False):
    """Of allocations: `bytes` is negative where memory is given back."""

    bytes: Mixed = field(default=0, name="Bytes")
    address: Mixed = field(default=-1, name="Addr")
    device_type: Mixed = field(default=-1, name="Device Type")
    device: Mixed = field(default=-1, name="Device Id")
    allocated: Mixed = field(default=-1, name="Total Allocated")
    reserved: Mixed = field(default=-1, name="Total Reserved")


class SyncArgs(Struct, gc=False):
    """Of waits as CUPTI tells them (`cuda_sync`), since torch 2.3 and only when asked for."""

    what: Raw = field(default=ABSENT, name="cuda_sync_kind")
    correlation: Mixed = -1
    stream: Mixed = -1
    waits_for: Mixed = field(default=-1, name="wait_on_stream")
    device: Mixed = -1


class LabelArgs(Struct, gc=False):
    """Of metadata events: names of processes, threads and streams."""

    name: Raw = ABSENT
    labels: Raw = ABSENT
