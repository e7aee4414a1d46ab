"""The plain data of a snapshot to records; every value is taken with care, since a hostile file may hold anything.

Layouts (torch/csrc/cuda/memory_snapshot.cpp; the oldest by what torch/cuda/_memory_viz.py still reads)::

    oldest   a list of segments; blocks without address, with `history` [{addr, real_size, frames}]
    then     {segments, device_traces}, the trace's index being the device; blocks with address, requested_size and
             frames; time_us; events without a stack have no frames; allocator_settings
    2.11     compile_context, user_metadata and external_annotations besides; a block that waits for a stream is
             `active_pending_free`, in torch's own documentation `active_awaiting_free`
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from necropsy_parsers.flight import printable, whole_number
from necropsy_parsers.records import Frame
from necropsy_parsers.snapshot.model import ACTIONS, OOM, History, Holding, Refused, Segment, Stack

MAX_FRAMES: Final = 256
MAX_SEGMENTS: Final = 1_000_000
MAX_EVENTS: Final = 2_000_000
MAX_DEVICES: Final = 64
IN_USE: Final = ("active_allocated", "active_pending_free", "active_awaiting_free")

_CODES: Final = {name: n for n, name in enumerate(ACTIONS)}
_OTHER: Final = len(ACTIONS) - 1


def is_snapshot(value: Any) -> bool:
    """Whether plain data looks like a snapshot."""
    segments = value.get("segments") if isinstance(value, dict) else value
    return isinstance(segments, list) and all(isinstance(s, dict) and "total_size" in s for s in segments[:4]) and (
        bool(segments) or (isinstance(value, dict) and isinstance(value.get("device_traces"), list))
    )  # fmt: skip


class Stacks:
    """Stacks and their numbers; 0 is the empty one. A snapshot shares the list of a stack among its events."""

    def __init__(self) -> None:
        self.stacks: list[Stack] = [()]
        self._by_list: dict[int, int] = {}
        self._by_frames: dict[tuple[Any, ...], int] = {(): 0}
        self._texts: dict[str, str] = {}

    def number(self, frames: Any) -> int:
        """The number of a list of frames."""
        if not isinstance(frames, list) or not frames:
            return 0
        known = self._by_list.get(id(frames))
        if known is None:
            key = tuple(_frame(f) for f in frames[:MAX_FRAMES] if isinstance(f, dict))
            known = self._by_frames.get(key)
            if known is None:
                known = self._by_frames[key] = len(self.stacks)
                self.stacks.append(tuple(Frame(self._text(f), n, self._text(name)) for f, n, name in key))
            self._by_list[id(frames)] = known
        return known

    def _text(self, value: str) -> str:
        known = self._texts.get(value)
        if known is None:
            known = self._texts[value] = printable(value)
        return known


def _frame(frame: dict[str, Any]) -> tuple[str, int, str]:
    file, name = frame.get("filename"), frame.get("name")
    return (
        file if isinstance(file, str) else "",
        whole_number(frame.get("line")),
        name if isinstance(name, str) else "",
    )


class Blocks:
    """Segments and live blocks of one device, as they are read."""

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks
        self.segments: list[Segment] = []
        self.live: dict[int, tuple[int, int]] = {}  # address -> (bytes asked for, stack)
        self.waiting = 0

    def add(self, segment: dict[str, Any]) -> None:
        """Take a segment and its blocks."""
        number = {k: whole_number(segment.get(k)) for k in _NUMBERS}
        kind, pool = segment.get("segment_type"), segment.get("segment_pool_id")
        numbers = tuple(whole_number(n) for n in pool[:2]) if isinstance(pool, (list, tuple)) else ()
        self.segments.append(
            Segment(
                number["address"], number["total_size"], number["allocated_size"], number["active_size"],
                number["stream"], kind if kind in ("small", "large") else "",
                (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0), segment.get("is_expandable") is True,
            )
        )  # fmt: skip
        at = number["address"]
        blocks = segment.get("blocks")
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict):
                self._block(block, at)
                at += whole_number(block.get("size"))

    def _block(self, block: dict[str, Any], at: int) -> None:
        state = block.get("state")
        if state not in IN_USE:
            return
        past = block.get("history")
        last = past[0] if isinstance(past, list) and past and isinstance(past[0], dict) else {}
        size = (
            whole_number(block.get("requested_size"))
            or whole_number(last.get("real_size"))
            or whole_number(block.get("size"))
        )
        stack = self._stacks.number(block.get("frames") or last.get("frames"))
        self.live[whole_number(block.get("address")) or at] = (size, stack)
        if state != IN_USE[0]:
            self.waiting += size


_NUMBERS: Final = ("address", "total_size", "allocated_size", "active_size", "stream")


def history_of(entries: Any, stacks: Stacks) -> tuple[History, list[Refused]]:
    """A device's events, and the refused allocations among them."""
    listed = entries[-MAX_EVENTS:] if isinstance(entries, list) else []
    events = [e for e in listed if isinstance(e, dict)]
    codes = bytearray()
    address, size, time, stack = array("q"), array("q"), array("q"), array("i")
    refused = []
    for e in events:
        action = e.get("action")
        code = _CODES.get(action, _OTHER) if isinstance(action, str) else _OTHER
        codes.append(code)
        number = stacks.number(e.get("frames"))
        address.append(whole_number(e.get("addr")))
        size.append(whole_number(e.get("size")))
        time.append(whole_number(e.get("time_us")))
        stack.append(number)
        if code == OOM:
            free = e.get("device_free")
            refused.append(Refused(size[-1], whole_number(free) if isinstance(free, int) else None, number, time[-1]))
    return History(bytes(codes), address, size, time, stack), refused


def summed(blocks: Iterable[tuple[int, int]]) -> tuple[Holding, ...]:
    """(bytes, stack) of blocks -> what each stack holds, the most bytes first."""
    sums: dict[int, tuple[int, int]] = {}
    for size, stack in blocks:
        total, count = sums.get(stack, (0, 0))
        sums[stack] = (total + size, count + 1)
    return tuple(sorted((Holding(s, n, c) for s, (n, c) in sums.items()), key=lambda h: (-h.bytes, h.stack)))


def parts_of(value: Any) -> Iterator[tuple[int, list[dict[str, Any]], Any]]:
    """(device, its segments, its events) of each device that a snapshot tells of."""
    listed = value.get("segments") if isinstance(value, dict) else value
    traces = value.get("device_traces") if isinstance(value, dict) else None
    by_device: dict[int, list[dict[str, Any]]] = {}
    for segment in islice(listed if isinstance(listed, list) else (), MAX_SEGMENTS):
        if isinstance(segment, dict):
            by_device.setdefault(whole_number(segment.get("device")), []).append(segment)
    events = dict(enumerate(traces[:MAX_DEVICES])) if isinstance(traces, list) else {}
    for device in sorted({*by_device, *(n for n, e in events.items() if e)})[:MAX_DEVICES]:
        yield device, by_device.get(device, []), events.get(device)
