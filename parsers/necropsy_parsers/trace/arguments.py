"""The arguments of events of one kind: decoded together, one by one where some are damaged."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from necropsy_parsers.trace.columns import Constant
from necropsy_parsers.trace.event import ABSENT, AnyEvent
from necropsy_parsers.trace.interned import Interned, InternedTexts
from necropsy_parsers.trace.kinds import COLLECTIVE, KINDS, TEXT, Kind
from necropsy_parsers.trace.model import Losses
from necropsy_parsers.trace.repair import repaired

_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NULL: Final = b"null"
NO_NUMBER: Final = Constant(-1)
NO_TEXT: Final = Constant(0, "i4")

Column = NDArray[Any] | Constant


class Arguments:
    """Turns arguments into columns; most are absent from all events of a piece, which costs a count and no rows."""

    def __init__(self, texts: Interned, losses: Losses) -> None:
        self._losses = losses
        self._texts = InternedTexts(texts)
        # Of each kind, for all of a piece's and for the rest.
        self._decoders = {k.name: msgspec.json.Decoder(list[k.args]) for k in KINDS.values() if k.columns}  # type: ignore[name-defined]

    def columns(self, kind: Kind, events: Sequence[AnyEvent]) -> dict[str, Column]:
        """The columns of a kind that come of its arguments."""
        rows = self._decoded(kind, [e.args for e in events])
        found: dict[str, Column] = {}
        texts: dict[str, list[msgspec.Raw]] = {}
        communicates = "collective" not in kind.columns or _texts(rows, ("collective",)) is not None
        for column, (dtype, fields) in kind.columns.items():
            told = communicates or column not in COLLECTIVE
            if dtype != TEXT:
                found[column] = _numbers(rows, fields) if told else NO_NUMBER
            elif told and (values := _texts(rows, fields)) is not None:
                texts[column] = values
            else:
                found[column] = NO_TEXT
        return {**found, **self._texts.indexes(texts)} if texts else found

    def _decoded(self, kind: Kind, args: Sequence[msgspec.Raw]) -> list[Any]:
        """Defaults where there are none."""
        decoder = self._decoders[kind.name]
        try:
            return decoder.decode(b"[" + b",".join(args) + b"]")
        except _UNREADABLE:
            empty = kind.args()
            return [self._one(kind, decoder, bytes(a)) or empty for a in args]

    def _one(self, kind: Kind, decoder: msgspec.json.Decoder[list[Any]], args: bytes) -> Any:
        if args == _NULL:
            return None
        try:
            return decoder.decode(b"[" + args + b"]")[0]
        except _UNREADABLE:
            members = repaired(args)
            self._losses.args += members is None
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


def _texts(rows: Sequence[Any], fields: Sequence[str]) -> list[msgspec.Raw] | None:
    """The first present of the fields in each row; None where no row has any."""
    values = list(map(attrgetter(fields[0]), rows))
    absent = values.count(ABSENT)
    for other in fields[1:]:
        if absent:
            more = list(map(attrgetter(other), rows))
            if more.count(ABSENT) < len(rows):
                values = [m if v is ABSENT else v for v, m in zip(values, more, strict=True)]
                absent = values.count(ABSENT)
    return values if absent < len(rows) else None


def _numbers(rows: Sequence[Any], fields: Sequence[str]) -> Column:
    """The first present of the fields in each row."""
    values = list(map(attrgetter(fields[0]), rows))
    absent = values.count(-1)
    for other in fields[1:]:
        if absent:
            more = list(map(attrgetter(other), rows))
            if more.count(-1) < len(rows):
                values = [m if v == -1 else v for v, m in zip(values, more, strict=True)]
                absent = values.count(-1)
    return integers(values) if absent < len(rows) else NO_NUMBER


def integers(values: Sequence[Any]) -> NDArray[np.int64]:
    """Numbers as some writer has them (see `event.Mixed`), -1 for what is none."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.fromiter(map(_integer, values), np.int64, len(values))


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
