"""From the bytes of a trace to its columns."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from necropsy_parsers.trace.clock import EXACT_BELOW
from necropsy_parsers.trace.columns import Columns
from necropsy_parsers.trace.event import EVENTS, EXACT_EVENTS, AnyEvent
from necropsy_parsers.trace.model import Losses
from necropsy_parsers.trace.pieces import BOUNDARY, Pieces, events_in
from necropsy_parsers.trace.repair import event_of, repaired
from necropsy_parsers.trace.tabulate import Tables

_TAIL_TRIES: Final = 64
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_SPLIT_MAX: Final = 3  # pieces of one event whose strings look like boundaries


class TraceReader:
    """Reads one trace; afterwards its attributes hold what was found."""

    def __init__(self) -> None:
        self.losses = Losses()
        self.tables = Tables(self.losses)
        self.head = self.tail = b""
        self.events = 0
        self._exact = False

    def read(self, chunks: Iterable[bytes]) -> dict[str, Columns]:
        """All of it. Raises nothing on content."""
        pieces = Pieces(chunks)
        collecting = gc.isenabled()
        gc.disable()  # millions of short-lived objects without cycles: the collector alone cost a third
        try:
            for piece, last in pieces:
                events = self._end(piece) if last else self._decoded(piece)
                self.events += len(events)
                self._keep(events)
        finally:
            if collecting:
                gc.enable()
        self.head = pieces.head
        self.losses.cut |= not pieces.found
        return self.tables.finished()

    def _keep(self, events: Sequence[AnyEvent]) -> None:
        # Of one type, but where the first time that needs its digits stands among events read one by one.
        if events and type(events[0]) is type(events[-1]):
            self.tables.add(events)
        else:
            for _, run in groupby(events, type):
                self.tables.add(list(run))

    # -- decoding -------------------------------------------------------------

    def _decoded(self, piece: bytes) -> Sequence[AnyEvent]:
        try:
            return self._strictly(piece)
        except _UNREADABLE:
            return list(self._one_by_one(piece[1:-1]))

    def _strictly(self, text: bytes) -> Sequence[AnyEvent]:
        """The events of a list."""
        if not self._exact:
            try:
                events = EVENTS.decode(text)
                # Writers count all times of a trace from one base, so that its first and last event tell.
                if not events or max(events[0].ts, events[-1].ts) < EXACT_BELOW:
                    return events
            except msgspec.ValidationError:
                pass  # times as strings, perhaps
            exact = EXACT_EVENTS.decode(text)
            self._exact = True
            return exact
        return EXACT_EVENTS.decode(text)

    def _one_by_one(self, piece: bytes) -> Iterator[AnyEvent]:
        """Each event for itself; one that a cut inside its string split is put together again."""
        held: list[bytes] = []
        for text in events_in(piece):
            found = self._one(text)
            if found is None and held:
                found = self._one(b",".join([*held, text]))
                if found is not None:
                    held = []
            if found is None:
                held = [*held[-_SPLIT_MAX:], text] if text.strip() else held
                self.losses.dropped += len(held) > _SPLIT_MAX
                continue
            self.losses.dropped += len(held)
            held = []
            yield from found
        self.losses.dropped += len(held)

    def _one(self, text: bytes) -> Sequence[AnyEvent] | None:
        """The event that a text holds, or None if it cannot be read."""
        try:
            return self._strictly(_listed(text))
        except _UNREADABLE:
            members = repaired(text)
            if members is None:
                return None
            self.losses.repaired += 1
            return [event_of(members, self._exact)]

    def _end(self, piece: bytes) -> Sequence[AnyEvent]:
        """The last piece: events, the end of their list, and the metadata behind it."""
        for close in _ends_of_list(piece):
            try:
                events = self._strictly(_listed(piece[:close].rstrip().removesuffix(b",")))
            except _UNREADABLE:
                continue
            self.tail = piece[close:]
            return events
        return self._damaged_end(piece)

    def _damaged_end(self, piece: bytes) -> Sequence[AnyEvent]:
        """No bracket closes whole events: something is damaged, or the file ends early."""
        close = next((c for c in _ends_of_list(piece) if _looks_like_end(piece, c)), None)
        self.losses.cut |= close is None
        body = piece[:close].rstrip().removesuffix(b",") if close is not None else self._without_cut_event(piece)
        self.tail = piece[close:] if close is not None else b""
        return list(self._one_by_one(body)) if body.strip() else []

    def _without_cut_event(self, piece: bytes) -> bytes:
        """A piece up to the end of its last whole event; the one at the cut is what "ends early" means."""
        end = len(piece)
        for _ in range(_TAIL_TRIES):
            end = piece.rfind(b"}", 0, end)
            begin = max((m.end() for m in BOUNDARY.finditer(piece, 0, end)), default=0)
            if end < 0:
                break
            before = self.losses.repaired
            if self._one(piece[begin : end + 1]) is not None:
                self.losses.repaired = before
                return piece[: end + 1]
        return b""


def _listed(events: bytes) -> bytes:
    return b"[" + events + b"]"


def _ends_of_list(piece: bytes) -> Iterator[int]:
    """Places of `]` behind an event, the last first."""
    close = len(piece)
    for _ in range(_TAIL_TRIES):
        close = piece.rfind(b"]", 0, close)
        if close < 0:
            return
        before = piece[max(0, close - 64) : close].rstrip().removesuffix(b",").rstrip()[-1:]
        if before in (b"}", b""):
            yield close


def _looks_like_end(piece: bytes, close: int) -> bool:
    """Whether what follows the bracket is the rest of a document, not of an event."""
    follows = piece[close + 1 : close + 64].lstrip()
    return not follows or follows[:1] == b"}" or (follows[:1] == b"," and follows[1:].lstrip()[:1] == b'"')
