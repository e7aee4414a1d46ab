"""Changes of a text to edits of the protocol, in the client's units."""

from __future__ import annotations

from collections.abc import Iterable

from lsprotocol import types
from pygls.workspace import PositionCodec

from necropsy_lsp.edits._text import Change, Text


def text_edits(text: Text, changes: Iterable[Change], codec: PositionCodec) -> list[types.TextEdit]:
    """Changes of a text as the protocol's edits."""
    return [
        types.TextEdit(types.Range(_position(text, c.start, codec), _position(text, c.end, codec)), c.text)
        for c in changes
    ]


def _position(text: Text, offset: int, codec: PositionCodec) -> types.Position:
    line = text.line_of(offset)
    start = 0 if line == 0 else text.starts[line]  # a byte order mark is a character of the first line
    return types.Position(line, codec.client_num_units(text.source[start:offset]))
