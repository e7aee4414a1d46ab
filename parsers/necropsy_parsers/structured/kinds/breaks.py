"""Graph breaks: the artifact holds what the text log prints under `graph_breaks`, frames left uncompiled with it.

`dynamo_graph_break_reason`: torch/_dynamo/symbolic_convert.py and exc.py since 2.5, convert_frame.py since 2.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import frame_skipped, graph_break
from necropsy_parsers.records import Record
from necropsy_parsers.structured.entry import Entry
from necropsy_parsers.structured.kinds import Plain, Reader

KINDS: Final = ("artifact:dynamo_graph_break_reason",)


def make() -> Reader:
    """A reader of breaks."""
    return Plain(_read)


def _read(entry: Entry) -> Iterator[Record]:
    text = entry.payload
    message = entry.message(text.removesuffix("\n").removesuffix("NoneType: None").rstrip(), "graph_breaks")
    yield from graph_break.read(message)
    yield from frame_skipped.read(message)
