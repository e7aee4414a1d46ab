"""A traceback to records: itself, and what the messages of its exceptions say."""

from __future__ import annotations

from collections.abc import Iterator

from necropsy_parsers.messages import Message, read_all
from necropsy_parsers.records import Record
from necropsy_parsers.text.traceback import PythonTraceback


def told(record: PythonTraceback) -> Iterator[Record]:
    """A traceback, and what the messages of its exceptions say."""
    yield record
    for exc in record.chain:
        if exc.complete:
            text = f"{exc.type}: {exc.text}"
            yield from read_all(
                Message(text, record.anchor, record.origin, record.seq, record.attempt, exception=record)
            )
