"""A trace on its way from one process to another: the columns through a file, the rest by value.

A trace of 1 GB has some 300 MB of columns. Sent through a pipe they would be copied four
times and stand in memory twice; in a file they are written once and mapped, and what an
analysis does not look at is never read again.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.trace.columns import Columns
from necropsy_parsers.trace.model import Trace

_ALIGNED: Final = 8  # bytes; every column's numbers are of 4 or 8


class Slot(Struct, frozen=True):
    """Where a column stands in the file: `offset` in bytes, `length` in rows."""

    kind: str
    column: str
    dtype: str
    offset: int
    length: int


class Parcel(Struct, frozen=True):
    """A trace without its columns, and where they are. `rows` is kind -> number of rows."""

    trace: Trace
    path: str
    slots: tuple[Slot, ...]
    rows: dict[str, int]


def packed(trace: Trace, path: str) -> Parcel:
    """Write the columns to a new file. Raises OSError where there is no room."""
    slots = []
    with open(path, "xb") as file:
        for kind, columns in trace.kinds.items():
            for name, array in columns.arrays.items():
                file.write(bytes(-file.tell() % _ALIGNED))
                slots.append(Slot(kind, name, array.dtype.str, file.tell(), len(array)))
                file.write(np.ascontiguousarray(array).data)
    rows = {kind: len(columns) for kind, columns in trace.kinds.items()}
    return Parcel(replace(trace, kinds={}), path, tuple(slots), rows)


def unpacked(parcel: Parcel) -> Trace:
    """The trace with its columns mapped; the file loses its name where the system allows that."""
    whole = np.empty(0, np.uint8)
    if os.path.getsize(parcel.path):
        # A plain array over the map: slices of a memmap pay for their class at every operation.
        whole = np.asarray(np.memmap(parcel.path, np.uint8, "r"))
    with contextlib.suppress(OSError):
        os.unlink(parcel.path)
    arrays: dict[str, dict[str, np.ndarray]] = {kind: {} for kind in parcel.rows}
    for s in parcel.slots:
        dtype = np.dtype(s.dtype)
        arrays[s.kind][s.column] = whole[s.offset : s.offset + s.length * dtype.itemsize].view(dtype)
    return replace(parcel.trace, kinds={k: Columns(arrays[k], n) for k, n in parcel.rows.items()})
