"""Decoded events of a piece -> rows of the columns of their kinds.

What every event has (name, times, process, thread) is taken of all events of a piece at
once and then sorted by kind: many small arrays would cost more than their numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import compress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from necropsy_parsers.trace import kinds
from necropsy_parsers.trace.arguments import Arguments, Column, integers
from necropsy_parsers.trace.clock import from_digits, from_doubles, plausible
from necropsy_parsers.trace.columns import Columns, Store
from necropsy_parsers.trace.event import AnyEvent, Event
from necropsy_parsers.trace.interned import Interned
from necropsy_parsers.trace.kinds import Kind
from necropsy_parsers.trace.model import Losses

_LEGACY_PIDS: Final = {"CPU functions": kinds.OP, "CUDA functions": kinds.KERNEL}  # torch 1.7 and before
_KINDS: Final = tuple(kinds.KINDS.values())
_NUMBER: Final = {kind.name: n for n, kind in enumerate(_KINDS)}
_UNCATEGORISED: Final = len(_KINDS)
_REMEMBERED: Final = 1 << 16  # distinct signatures; what repeats does so sooner
_FLOWS: Final = (kinds.FLOW_START, kinds.FLOW_END)


class _Signatures(dict[tuple[str, str, str, int | str | None, int | str | None], int]):
    """(category, phase, name, process, thread) -> number, and what each of them is by number.

    Events repeat in these as wholes: one look at all five costs half of one look each.
    """

    def __init__(self, names: Interned, processes: Interned, threads: Interned) -> None:
        self._interned = names, processes, threads
        self.kinds, self.names, self.processes, self.threads = (array("i") for _ in range(4))

    def __missing__(self, key: tuple[str, str, str, int | str | None, int | str | None]) -> int:
        category, phase, *lane = key
        uncategorised = not category and phase == "X"
        self.kinds.append(_UNCATEGORISED if uncategorised else _NUMBER[kinds.kind_of(category, phase).name])
        for indexes, interned, value in zip(
            (self.names, self.processes, self.threads), self._interned, lane, strict=True
        ):
            indexes.append(interned[value])
        number = self[key] = len(self)
        return number


class Tables:
    """The columns of a trace while it is read, and the values that they are indexes of."""

    def __init__(self, losses: Losses) -> None:
        self.names, self.processes, self.threads, self.texts = Interned(), Interned(), Interned(), Interned()
        self.texts[b""]  # index 0: none
        self._losses = losses
        self._store = Store()
        self._signatures = self._none_yet()
        self._arguments = Arguments(self.texts, losses)

    def finished(self) -> dict[str, Columns]:
        """Kind -> columns."""
        return self._store.finished()

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Append events, all of one type."""
        start, length = _times(events)
        fit = plausible(start, length)
        if not fit.all():
            self._losses.times += int(np.count_nonzero(~fit))
            events = list(compress(events, fit.tolist()))
            start, length = start[fit], length[fit]
        number, lanes = self._signed(events)
        order = np.argsort(number, kind="stable")
        columns = {name: values[order] for name, values in lanes.items()}
        columns |= {"start": start[order], "end": (start + np.maximum(length, 0))[order]}
        events = list(map(events.__getitem__, order.tolist()))
        begin = 0
        for kind, count in zip(_KINDS, np.bincount(number, minlength=len(_KINDS)).tolist(), strict=True):
            if count:
                rows = slice(begin, begin + count)
                self._keep(kind, events[rows], {name: values[rows] for name, values in columns.items()})
                begin += count

    def _signed(self, events: Sequence[AnyEvent]) -> tuple[NDArray[np.int32], dict[str, NDArray[Any]]]:
        """The number of each event's kind, and the columns of its name and lane."""
        known = self._signatures
        # A comprehension, since Python 3.11 reads slots of one type in half the time of `map(attrgetter(..))`.
        keys = [(e.cat, e.ph, e.name, e.pid, e.tid) for e in events]
        signature = np.fromiter(map(known.__getitem__, keys), np.int32, len(keys))
        number = np.frombuffer(known.kinds, np.int32)[signature]
        for row in np.flatnonzero(number == _UNCATEGORISED).tolist():
            number[row] = _NUMBER[_uncategorised(events[row]).name]
        columns = {"name": known.names, "process": known.processes, "thread": known.threads}
        lanes = {name: np.frombuffer(indexes, np.int32)[signature] for name, indexes in columns.items()}
        if len(known) > _REMEMBERED:
            self._signatures = self._none_yet()
        return number, lanes

    def _none_yet(self) -> _Signatures:
        return _Signatures(self.names, self.processes, self.threads)

    def _keep(self, kind: Kind, events: Sequence[AnyEvent], shared: dict[str, NDArray[Any]]) -> None:
        columns: dict[str, Column] = {**shared}
        if kind in _FLOWS:
            columns["id"] = integers([e.id for e in events])
        if kind.columns:
            columns |= self._arguments.columns(kind, events)
        self._store.add(kind.name, columns, len(events))


def _times(events: Sequence[AnyEvent]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and length in ns."""
    if events and isinstance(events[0], Event):
        n = len(events)
        starts, lengths = [e.ts for e in events], [e.dur for e in events]
        return from_doubles(np.fromiter(starts, np.float64, n)), from_doubles(np.fromiter(lengths, np.float64, n))
    return from_digits([bytes(e.ts) for e in events]), from_digits([bytes(e.dur) for e in events])  # type: ignore[arg-type]


def _uncategorised(event: AnyEvent) -> Kind:
    """The kind of rows of torch before Kineto, told by their process, and of Ascend's devices, by their arguments."""
    kind = _LEGACY_PIDS.get(event.pid) if isinstance(event.pid, str) else None
    if kind is not None:
        return kind
    return kinds.KERNEL if b'"Task Type"' in bytes(event.args) else kinds.OTHER
