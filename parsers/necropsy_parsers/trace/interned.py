"""Values that repeat, as indexes in the order of their first appearance."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

_REMEMBERED: Final = 1 << 16  # distinct rows of texts; what repeats does so sooner


class Interned(dict[Any, int]):
    """Value -> index."""

    def __missing__(self, value: Any) -> int:
        index = self[value] = len(self)
        return index

    def indexes(self, values: Iterable[Any], n: int) -> NDArray[np.int32]:
        """The indexes of `n` values."""
        return np.fromiter(map(self.__getitem__, values), np.int32, n)


class InternedTexts:
    """Interns the texts of several columns in one go.

    The texts of an event (shapes, types, strides) repeat together: one look at the row of
    them costs a third of one look a text.
    """

    def __init__(self, texts: Interned) -> None:
        self._texts = texts
        self._known: dict[tuple[str, ...], _Rows] = {}

    def indexes(self, columns: Mapping[str, Sequence[msgspec.Raw]]) -> dict[str, NDArray[np.int32]]:
        """Column -> indexes of its texts."""
        names = tuple(columns)
        known = self._known.get(names)
        if known is None:
            known = self._known[names] = _Rows(len(names), self._texts)
        found = dict(zip(names, known.indexes(list(columns.values())), strict=True))
        if len(known.numbers) > _REMEMBERED:
            del self._known[names]
        return found


class _Rows:
    """Rows of `width` texts: their numbers, and the indexes of their texts by number."""

    def __init__(self, width: int, texts: Interned) -> None:
        self.numbers = Interned()
        self._texts = texts
        self._indexes = [array("i") for _ in range(width)]

    def indexes(self, columns: Sequence[Sequence[msgspec.Raw]]) -> list[NDArray[np.int32]]:
        known = len(self.numbers)
        n = len(columns[0])
        # A value of JSON neither begins nor ends with a line feed, so that no two rows have the same joined text.
        numbers = self.numbers.indexes(map(b"\n".join, zip(*columns, strict=True)), n)
        for row in np.flatnonzero(numbers >= known).tolist():
            if numbers[row] == len(self._indexes[0]):
                for column, indexes in zip(columns, self._indexes, strict=True):
                    indexes.append(self._texts[bytes(column[row])])
        return [np.frombuffer(indexes, np.int32)[numbers] for indexes in self._indexes]
