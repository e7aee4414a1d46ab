"""From the bytes of a trace to its columns."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from necropsy_parsers.trace import kinds
from necropsy_parsers.trace.clock import EXACT_BELOW, from_digits, from_doubles, plausible
from necropsy_parsers.trace.columns import Columns, Store
from necropsy_parsers.trace.event import EVENTS, EXACT_EVENTS, NO_ARGS, AnyEvent, Event, decoder_of
from necropsy_parsers.trace.kinds import COLLECTIVE, NUMBER, TEXT, Kind
from necropsy_parsers.trace.model import Losses
from necropsy_parsers.trace.pieces import BOUNDARY, Pieces, events_in
from necropsy_parsers.trace.repair import event_of, repaired

_TAIL_TRIES: Final = 64
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_ARGS: Final = attrgetter("args")
_SPLIT_MAX: Final = 3  # pieces of one event whose strings look like boundaries
_LEGACY_PIDS: Final = {"CPU functions": kinds.OP, "CUDA functions": kinds.KERNEL}  # torch 1.7 and before


class Interned(dict[Any, int]):
    """Value -> index, in order of first appearance."""

    def __missing__(self, value: Any) -> int:
        index = self[value] = len(self)
        return index


class TraceReader:
    """Reads one trace; afterwards its attributes hold what was found."""

    def __init__(self) -> None:
        self.losses = Losses()
        self.names, self.processes, self.threads, self.texts = Interned(), Interned(), Interned(), Interned()
        self.texts[b""]  # index 0: none
        self.head = self.tail = b""
        self.events = 0
        self._store = Store()
        self._exact = False
        self._kinds: dict[tuple[str, str], Kind] = {}
        named = [k for k in kinds.KINDS.values() if k.args.__struct_fields__]
        self._args = {k.name: decoder_of(k.args) for k in named}
        self._keys = {
            k.name: {f.name: f'"{f.encode_name}"'.encode() for f in msgspec.structs.fields(k.args)} for k in named
        }

    def read(self, chunks: Iterable[bytes]) -> dict[str, Columns]:
        """All of it. Raises nothing on content."""
        pieces = Pieces(chunks)
        collecting = gc.isenabled()
        gc.disable()  # millions of short-lived objects without cycles: the collector alone cost a third
        try:
            for piece, last in pieces:
                events = self._end(piece) if last else self._decoded(piece)
                if events:
                    self._keep(events)
        finally:
            if collecting:
                gc.enable()
        self.head = pieces.head
        self.losses.cut |= not pieces.found
        return self._store.finished()

    # -- decoding -------------------------------------------------------------

    def _decoded(self, piece: bytes) -> Sequence[AnyEvent]:
        try:
            return self._strictly(piece)
        except _UNREADABLE:
            return list(self._one_by_one(piece))

    def _strictly(self, piece: bytes) -> Sequence[AnyEvent]:
        text = b"[" + piece + b"]"
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
            return self._strictly(text)
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
                events = self._strictly(piece[:close].rstrip().removesuffix(b","))
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

    # -- columns --------------------------------------------------------------

    def _keep(self, events: Sequence[AnyEvent]) -> None:
        self.events += len(events)
        # Events read one by one may be of both types, where the first time that needs its digits stands among them.
        buckets: dict[tuple[str, str, type], list[AnyEvent]] = {}
        for event in events:
            key = (event.cat, event.ph, type(event))
            try:
                buckets[key].append(event)
            except KeyError:
                buckets[key] = [event]
        for (category, phase, _), bucket in buckets.items():
            if not category and phase == "X":
                self._keep_uncategorised(bucket)
            else:
                kind = self._kinds.get((category, phase))
                if kind is None:
                    kind = self._kinds[category, phase] = kinds.kind_of(category, phase)
                self._keep_kind(kind, bucket)

    def _keep_uncategorised(self, events: Sequence[AnyEvent]) -> None:
        """Rows of torch before Kineto, told by their process, and of Ascend's devices, by their arguments."""
        split: dict[str, list[AnyEvent]] = {}
        for e in events:
            kind = _LEGACY_PIDS.get(e.pid) if isinstance(e.pid, str) else None
            if kind is None:
                kind = kinds.KERNEL if b'"Task Type"' in bytes(e.args) else kinds.OTHER
            split.setdefault(kind.name, []).append(e)
        for name, bucket in split.items():
            self._keep_kind(kinds.KINDS[name], bucket)

    def _keep_kind(self, kind: Kind, events: Sequence[AnyEvent]) -> None:
        start, length = self._times(events)
        known = plausible(start, length)
        if not known.all():
            self.losses.times += int(np.count_nonzero(~known))
            events = list(compress(events, known.tolist()))
            start, length = start[known], length[known]
        n = len(events)
        columns: dict[str, NDArray[Any]] = {
            "name": _indexes(self.names, map(attrgetter("name"), events), n),
            "start": start,
            "end": start + np.maximum(length, 0),
            "process": _indexes(self.processes, map(attrgetter("pid"), events), n),
            "thread": _indexes(self.threads, map(attrgetter("tid"), events), n),
        }
        if kind in (kinds.FLOW_START, kinds.FLOW_END):
            columns["id"] = _integers([e.id for e in events])
        if kind.columns:
            self._add_args(kind, events, columns)
        self._store.add(kind.name, columns)

    def _times(self, events: Sequence[AnyEvent]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if isinstance(events[0], Event):
            n = len(events)
            times = (np.fromiter(map(attrgetter(k), events), np.float64, n) for k in ("ts", "dur"))
            start, length = (from_doubles(t) for t in times)
            return start, length
        return from_digits([bytes(e.ts) for e in events]), from_digits([bytes(e.dur) for e in events])  # type: ignore[arg-type]

    def _add_args(self, kind: Kind, events: Sequence[AnyEvent], columns: dict[str, NDArray[Any]]) -> None:
        text = b",".join(map(_ARGS, events))
        rows = self._arguments(kind, events, text)
        keys = self._keys[kind.name]
        collective = b'"Collective name"' in text
        n = len(events)
        for column, (dtype, fields) in kind.columns.items():
            # Most arguments are rare: a search for their keys in the text of all is a tenth of asking each row.
            # Those of collectives stand together, so that one search tells of all.
            told = [f for f in fields if (collective or f not in COLLECTIVE) and keys[f] in text]
            if dtype == TEXT:
                columns[column] = self._texts(rows, told) if told else np.zeros(n, np.int32)
            elif dtype == NUMBER:
                columns[column] = _numbers(rows, told) if told else np.full(n, -1, np.int64)

    def _texts(self, rows: list[Any], fields: list[str]) -> NDArray[np.int32]:
        raw = list(map(bytes, map(attrgetter(fields[0]), rows)))
        for other in fields[1:]:
            raw = [v or bytes(getattr(r, other)) for v, r in zip(raw, rows, strict=True)]
        return _indexes(self.texts, raw, len(rows))

    def _arguments(self, kind: Kind, events: Sequence[AnyEvent], text: bytes) -> list[Any]:
        """The arguments of events of one kind, decoded together; defaults where there are none."""
        decoder, empty = self._args[kind.name], kind.args()
        try:
            rows = decoder.decode(b"[" + text + b"]")
            return [a or empty for a in rows] if None in rows else rows
        except _UNREADABLE:
            return [self._argument(kind, decoder, e.args) or empty for e in events]

    def _argument(self, kind: Kind, decoder: msgspec.json.Decoder[list[Any]], raw: msgspec.Raw) -> Any:
        if raw is NO_ARGS:
            return None
        try:
            return decoder.decode(b"[" + bytes(raw) + b"]")[0]
        except _UNREADABLE:
            members = repaired(bytes(raw))
            self.losses.args += members is None
            return _coerced(kind.args, members) if members is not None else None


def _coerced(args: type[msgspec.Struct], members: dict[str, Any]) -> Any:
    """The members that fit their fields."""
    fields: dict[str, Any] = {}
    for f in msgspec.structs.fields(args):
        value = members.get(f.encode_name)
        if value is None:
            continue
        if isinstance(f.default, msgspec.Raw):
            fields[f.name] = msgspec.Raw(msgspec.json.encode(value))
        elif isinstance(value, int | float | str):
            fields[f.name] = value
    return args(**fields)


def _indexes(interned: Interned, values: Iterable[Any], n: int) -> NDArray[np.int32]:
    return np.fromiter(map(interned.__getitem__, values), np.int32, n)


def _numbers(rows: list[Any], fields: list[str]) -> NDArray[np.int64]:
    values = _integers(list(map(attrgetter(fields[0]), rows)))
    for other in fields[1:]:
        values = np.where(values == -1, _integers(list(map(attrgetter(other), rows))), values)
    return values


def _integers(values: list[Any]) -> NDArray[np.int64]:
    try:
        return np.array(values, np.int64)
    except (TypeError, ValueError, OverflowError):
        return np.array([_integer(v) for v in values], np.int64)


def _integer(value: Any) -> int:
    """7, 7.0, "7", "stream 7" and "0x0" as numbers; -1 for anything else."""
    if isinstance(value, str):
        digits = value.rpartition(" ")[2]
        try:
            value = int(digits, 0)
        except ValueError:
            return -1
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return -1
    if number >= 1 << 64 or number < -(1 << 63):
        return -1
    return number if number < 1 << 63 else number - (1 << 64)


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
