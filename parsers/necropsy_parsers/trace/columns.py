"""Columns that grow piece by piece, and go to a temporary file when they are many."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from typing import IO, Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Array = NDArray[Any]

SPILL_BEYOND: Final = 48 << 20  # bytes of all columns of a trace kept in memory


class Columns:
    """The finished columns of one kind: `columns["start"]`, and `len(columns)` rows."""

    def __init__(self, arrays: Mapping[str, Array], length: int) -> None:
        self.arrays = dict(arrays)
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, column: str) -> Array:
        return self.arrays[column]

    def take(self, rows: Array) -> Columns:
        """Some of the rows, in memory; columns of one value stay without bytes."""
        length = int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows)
        return Columns({k: _taken(v, rows, length) for k, v in self.arrays.items()}, length)


def _taken(array: Array, rows: Array, length: int) -> Array:
    if len(array) and array.strides == (0,):
        return np.broadcast_to(array[0], length)
    return np.asarray(array[rows])


class Constant(Struct, frozen=True):
    """A column, or its next rows, of one value: no bytes, in memory or on disk."""

    value: int
    dtype: str = "i8"


class _Column:
    """Pieces of one column; once spilled, a file that later pieces are added to."""

    def __init__(self, dtype: str) -> None:
        self.dtype = np.dtype(dtype)
        self.pieces: list[Array] = []
        self.file: IO[bytes] | None = None
        self.length = 0
        self.constant: Constant | None = None  # while all rows are of one value

    def add(self, values: Array | Constant, rows: int) -> int:
        """Bytes that the new rows take in memory."""
        added = 0
        if isinstance(values, Constant):
            if self.constant == values or not self.length:
                self.constant = values
                self.length += rows
                return 0
            values = np.full(rows, values.value, self.dtype)
        if self.constant is not None:
            added = self._append(np.full(self.length, self.constant.value, self.dtype))
            self.constant = None
        self.length += rows
        return added + self._append(np.ascontiguousarray(values, self.dtype))

    def _append(self, piece: Array) -> int:
        if self.file is not None:
            self.file.write(piece.data)
            return 0
        self.pieces.append(piece)
        return piece.nbytes

    def spill(self) -> None:
        """Move what is in memory to a file without a name; raises OSError where none can be made."""
        if self.file is None:
            self.file = tempfile.TemporaryFile(prefix="necropsy-")  # noqa: SIM115 (lives as long as its array)
            for piece in self.pieces:
                self.file.write(piece.data)
            self.pieces = []

    def finished(self) -> Array:
        """The whole column; a spilled one is mapped, not read."""
        if self.constant is not None:
            return np.broadcast_to(np.array(self.constant.value, self.dtype), self.length)
        if self.file is not None and self.length:
            self.file.flush()
            # A plain array over the map: slices of a memmap pay for their class at every operation.
            return np.asarray(np.memmap(self.file, self.dtype, "r", shape=(self.length,)))
        return np.concatenate(self.pieces) if self.pieces else np.empty(0, self.dtype)


class Store:
    """The growing columns of all kinds of a trace.

    `limit` is the size in bytes beyond which they are spilled: a trace of 1 GB has some
    300 MB of columns, of which an analysis reads a part at a time.
    """

    def __init__(self, limit: int = SPILL_BEYOND) -> None:
        self._kinds: dict[str, dict[str, _Column]] = {}
        self._bytes = 0
        self._limit = limit
        self._spilled = False

    def add(self, kind: str, values: Mapping[str, Array | Constant], rows: int) -> None:
        """Append rows to a kind; each call gives the same columns."""
        columns = self._kinds.setdefault(kind, {})
        for name, array in values.items():
            if name not in columns:
                columns[name] = _Column(_narrow(name, array))
                if self._spilled:
                    self._spill(columns[name])
            self._bytes += columns[name].add(array, rows)
        if self._bytes > self._limit and not self._spilled:
            self._spilled = True
            for kept in self._kinds.values():
                for column in kept.values():
                    self._spill(column)
            self._bytes = 0

    def _spill(self, column: _Column) -> None:
        # A full or read-only disk: the column stays in memory, which costs more but loses nothing.
        with contextlib.suppress(OSError):
            column.spill()

    def finished(self) -> dict[str, Columns]:
        """Kind -> columns."""
        found = {}
        for kind, columns in self._kinds.items():
            length = next(iter(columns.values())).length
            found[kind] = Columns({name: c.finished() for name, c in columns.items()}, length)
        return found


_NARROW: Final = frozenset({"name", "process", "thread", "device", "registers", "shared", "occupancy", "group_size"})


def _narrow(name: str, array: Array | Constant) -> str:
    """32 bits where they are enough: indexes, and numbers that hardware bounds."""
    return "i4" if name in _NARROW or np.dtype(array.dtype) == np.int32 else "i8"
