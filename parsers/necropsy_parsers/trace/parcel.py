"""A trace outside of the process that read it: the columns in a file, the rest by value.

A trace of 1 GB has some 200 MB of columns. Sent through a pipe they would be copied four
times and stand in memory twice; in a file they are written once and mapped, and what an
analysis does not look at is never read again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from necropsy_parsers.trace.columns import Columns
from necropsy_parsers.trace.model import Trace

_ALIGNED: Final = 8  # bytes; every column's numbers are of 4 or 8
_BLOCK: Final = 1 << 17  # rows written at once: a spilled column is not drawn into memory as a whole
_TYPES: Final = frozenset({"<i4", "<i8"})


class Slot(Struct, frozen=True):
    """Where a column stands: `offset` in bytes, `length` in rows; or its `value`, where all rows have one."""

    kind: str
    column: str
    dtype: str
    offset: int
    length: int
    value: int | None = None


class Parcel(Struct, frozen=True):
    """A trace without its columns, and where they are. `rows` is kind -> number of rows."""

    trace: Trace
    path: str
    slots: tuple[Slot, ...]
    rows: dict[str, int]


def packed(trace: Trace, path: str) -> Parcel:
    """Write the columns to a new file. Raises OSError where there is no room."""
    slots = slots_of(trace)
    with open(path, "xb") as file:
        for block in blocks_of(trace, slots):
            file.write(block)
    return Parcel(replace(trace, kinds={}), path, slots, rows_of(trace))


def unpacked(parcel: Parcel) -> Trace:
    """The trace with its columns mapped; the file loses its name where the system allows that."""
    kinds = mapped(parcel.path, parcel.slots, parcel.rows)
    with contextlib.suppress(OSError):
        os.unlink(parcel.path)
    return replace(parcel.trace, kinds=kinds)


def rows_of(trace: Trace) -> dict[str, int]:
    """Kind -> number of rows."""
    return {kind: len(columns) for kind, columns in trace.kinds.items()}


def slots_of(trace: Trace) -> tuple[Slot, ...]:
    """Where each column is to stand, one behind the other."""
    slots, offset = [], 0
    for kind, columns in trace.kinds.items():
        for name, array in columns.arrays.items():
            if len(array) and array.strides == (0,):
                slots.append(Slot(kind, name, array.dtype.str, 0, len(array), int(array[0])))
                continue
            slots.append(Slot(kind, name, array.dtype.str, offset, len(array)))
            offset += array.nbytes + -array.nbytes % _ALIGNED
    return tuple(slots)


def blocks_of(trace: Trace, slots: Iterable[Slot]) -> Iterator[bytes | memoryview]:
    """The bytes of all columns, as their slots say."""
    for slot in slots:
        if slot.value is None:
            array = trace.kinds[slot.kind][slot.column]
            for begin in range(0, slot.length, _BLOCK):
                yield np.ascontiguousarray(array[begin : begin + _BLOCK]).data.cast("B")
            yield bytes(-array.nbytes % _ALIGNED)


def mapped(path: str, slots: Iterable[Slot], rows: Mapping[str, int], begin: int = 0) -> dict[str, Columns]:
    """Kind -> columns, mapped from a file in which they begin at `begin`. Raises ValueError where they do not fit."""
    whole = np.empty(0, np.uint8)
    if os.path.getsize(path):
        # A plain array over the map: slices of a memmap pay for their class at every operation.
        whole = np.asarray(np.memmap(path, np.uint8, "r"))
    arrays: dict[str, dict[str, NDArray[Any]]] = {kind: {} for kind in rows}
    for s in slots:
        if s.dtype not in _TYPES or s.length != rows.get(s.kind) or s.offset % _ALIGNED or s.offset < 0:
            raise ValueError("no column")
        dtype = np.dtype(s.dtype)
        if s.value is not None:
            arrays[s.kind][s.column] = np.broadcast_to(np.array(s.value, dtype), s.length)
            continue
        part = whole[begin + s.offset : begin + s.offset + s.length * dtype.itemsize]
        arrays[s.kind][s.column] = part.view(dtype)
        if len(arrays[s.kind][s.column]) != s.length:
            raise ValueError("a column is cut off")
    return {k: Columns(arrays[k], n) for k, n in rows.items()}
