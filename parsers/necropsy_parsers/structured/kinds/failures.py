"""Compilations that ended in an exception: the artifact holds its traceback with the user's stack.

`dynamo_error`, torch/_dynamo/convert_frame.py since 2.4. Whether the exception ended the program or was suppressed, the
structured log does not tell. A graph break where none is allowed (fullgraph=True) has no artifact of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import compile_failure, graph_break
from necropsy_parsers.records import Record
from necropsy_parsers.structured.entry import Entry
from necropsy_parsers.structured.kinds import Plain, Reader

KINDS: Final = ("artifact:dynamo_error",)


def make() -> Reader:
    """A reader of failures."""
    return Plain(_read)


def _read(entry: Entry) -> Iterator[Record]:
    message = entry.message(entry.payload, "dynamo_error")
    yield from compile_failure.from_traceback(message)
    yield from graph_break.from_traceback(message)
