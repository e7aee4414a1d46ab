"""What entries of torch's log said, so that the same words are read once: ranks and later steps say them again.

Sixteen ranks that break a graph at one line print one text with sixteen heads. Of the second one only the head is new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from msgspec.structs import replace

from necropsy_parsers.messages import Message, MessageFormat, all_messages, read_all
from necropsy_parsers.records import Record

MOST: Final = 4 << 20  # characters kept; what fills that is not what repeats itself
LONGEST: Final = 16 << 10
_OWN: Final = "compile_id"  # what records hold of the head besides their origin


class Memory:
    """Texts and the records that were read from them."""

    def __init__(self) -> None:
        self._told: dict[tuple[object, ...], tuple[Record, ...]] = {}
        self._size = 0

    def read(self, message: Message, kinds: Sequence[MessageFormat] | None = None) -> list[Record]:
        """What a message says: `read_all`, or what the same words said before under another head."""
        o = message.origin
        key = (message.text, o.level, o.place, bool(o.compile_id), o.artifact, message.headed)
        told = self._told.get(key)
        if told is not None:
            return list(_again(message, told))
        records = list(read_all(message, kinds))
        size = len(message.text)
        if size <= LONGEST and all(_only_words(message, record) for record in records):
            if self._size + size > MOST:
                self._told.clear()
                self._size = 0
            self._told[key] = tuple(records)
            self._size += size
        return records


def _again(message: Message, records: Sequence[Record]) -> Iterator[Record]:
    """The records with this message's head and place."""
    head: dict[str, Any] = {"anchor": message.anchor, **message.common}
    for record in records:
        own = {_OWN: message.origin.compile_id} if _OWN in record.__struct_fields__ else {}
        yield replace(record, **head, **own)


def _only_words(message: Message, record: Record) -> bool:
    """Whether a record holds of its head what every record does, and no more: messages of the compiler do."""
    return (
        type(record).__module__ in _compilers()
        and record.anchor is message.anchor
        and record.origin is message.origin
        and (record.seq, record.attempt) == (message.seq, message.attempt)
        and "rank" not in record.__struct_fields__
        and getattr(record, _OWN, message.origin.compile_id) == message.origin.compile_id
    )


@cache
def _compilers() -> frozenset[str]:
    """The modules of the messages that the compiler writes."""
    return frozenset(kind.read.__module__ for kind in all_messages() if kind.reads)
