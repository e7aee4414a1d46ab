r"""Text of open documents: lines as the protocol counts them, and edits as changes of lines.

pygls splits with `str.splitlines`, which also breaks at form feeds and other separators
(`\x0c`, `\u2028`), so that in such a file every later position would be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lsprotocol import types
from msgspec import Struct
from pygls.workspace import PositionCodec, TextDocument, Workspace

_LINE_END = re.compile(r"\r\n|\r|\n")


class LineEdit(Struct, frozen=True):
    """Lines `first` to `last` (0-based, included) became `lines`.

    `pushes` means that the edit began in the indentation of its first line, so that what
    stood there was pushed down; otherwise it stays where it is.
    """

    first: int
    last: int
    lines: tuple[str, ...]
    pushes: bool = False


def split_lines(text: str) -> list[str]:
    """Lines as the protocol and Python count them: `str.splitlines` also breaks at form feeds."""
    return _LINE_END.split(text)


def index_of(line: str, units: int, codec: PositionCodec) -> int:
    """The index in `line` of a character counted in the client's units, at most the line's length."""
    if line.isascii():
        return min(max(units, 0), len(line))
    count = 0
    for index, char in enumerate(line):
        count += codec.client_num_units(char)
        if count > units:
            return index
    return len(line)


def width(text: str, codec: PositionCodec) -> int:
    """How many of the client's units a text has."""
    return len(text) if text.isascii() else int(codec.client_num_units(text))


def apply(text: str, lines: Sequence[str], edit: types.Range, new: str, codec: PositionCodec) -> tuple[str, LineEdit]:
    """The text after one edit of the client, and what it did to the lines.

    `lines` are those of `text`. Positions outside the text mean its nearest character.
    """
    starts = [0, *(m.end() for m in _LINE_END.finditer(text))]

    def locate(position: types.Position) -> tuple[int, int]:
        if position.line >= len(lines):
            return len(lines) - 1, len(text)
        return position.line, starts[position.line] + index_of(lines[position.line], position.character, codec)

    first, begin = locate(edit.start)
    last, end = locate(edit.end)
    if end < begin:  # a client that counts backwards edits nothing else than from here on
        last, end = first, begin
    changed = text[:begin] + new + text[end:]
    after = len(lines) - 1 - last
    whole = split_lines(changed)
    indented = not text[starts[first] : begin].strip()
    # Counted from both ends: `\n` typed after a line that ends in `\r` makes no new line.
    return changed, LineEdit(first, last, tuple(whole[first : len(whole) - after]), indented)


class Document(TextDocument):
    """A text document that applies edits exactly and remembers what they did to its lines."""

    edits: list[LineEdit]
    _lines: tuple[str, list[str]] | None = None

    @property
    def plain_lines(self) -> list[str]:
        """The lines without their ends; do not change the list."""
        source = self.source
        if self._lines is None or self._lines[0] is not source:
            self._lines = (source, split_lines(source))
        return self._lines[1]

    @property
    def lines(self) -> Sequence[str]:
        """The lines with their ends, as pygls wants them for its positions."""
        source = self.source
        ends = [m.end() for m in _LINE_END.finditer(source)]
        parts = [source[a:b] for a, b in zip([0, *ends], [*ends, len(source)], strict=True)]
        return tuple(parts if parts[-1] else parts[:-1])

    def take_edits(self) -> list[LineEdit]:
        """What changed since the last call."""
        taken = vars(self).pop("edits", [])
        return list(taken)

    def _apply_incremental_change(self, change: types.TextDocumentContentChangePartial) -> None:
        self._source, edit = apply(self.source, self.plain_lines, change.range, change.text, self.position_codec)
        vars(self).setdefault("edits", []).append(edit)

    def _apply_full_change(self, change: types.TextDocumentContentChangeEvent) -> None:
        before = len(self.plain_lines)
        self._source = change.text
        vars(self).setdefault("edits", []).append(LineEdit(0, before - 1, tuple(self.plain_lines)))


class Documents(Workspace):
    """A workspace whose documents are `Document`."""

    def _create_text_document(
        self, doc_uri: str, source: str | None = None, version: int | None = None, language_id: str | None = None
    ) -> TextDocument:
        return Document(
            doc_uri,
            source=source,
            version=version,
            language_id=language_id,
            sync_kind=self._sync_kind,
            position_codec=self._position_codec,
        )
