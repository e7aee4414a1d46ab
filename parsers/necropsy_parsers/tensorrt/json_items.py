"""JSON documents of TensorRT to their items, one at a time and with their places, whatever is damaged between them.

A document is an object with a list in it (`{"Layers": [..], "Bindings": [..]}`), or a list. `trtexec` 8.x writes names
into it without escaping them, killed jobs leave it cut off, and shells put a line of log before it: each item is
decoded alone, so that one that is damaged costs nothing but itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

MAX_BYTES: Final = 512 << 20  # the JSON of an engine of 10,000 layers takes some 20 MB
MAX_ITEM: Final = 4 << 20
_DECODER: Final = json.JSONDecoder(strict=False)  # control characters in names: TensorRT puts U+001E into metadata
_BLANK: Final = re.compile(r"[\s,]*")
# Where reading goes on behind a damaged item: at the next layer (tensors within layers have names, too), else object.
_LAYER: Final = re.compile(r'\{\s*"[Nn]ame"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*"LayerType"')
_OBJECT: Final = re.compile(r"(?<=[}\]])\s*,?\s*\{")
_ESCAPE: Final = re.compile(r'\\(?!["\\/bfnrtu])')


class Item(Struct, frozen=True):
    """An item of a list: its value, its place, and its number among all items from 0."""

    value: Any
    anchor: Anchor
    number: int


class Document:
    """The text of a JSON input, with places counted in bytes and lines.

    `read` counts damaged items and adds issues of the kinds `engine/...`.
    """

    def __init__(self, source: Source, issues: Issues) -> None:
        self.name = source.name
        self.issues = issues
        parts, size = [], 0
        for chunk in source.chunks():
            parts.append(chunk)
            size += len(chunk)
            if size > MAX_BYTES:
                issues.add("source/limit", source.name)
                break
        self.text = b"".join(parts).decode("utf-8", "replace").removeprefix("\ufeff")
        self._next = _LAYER if '"LayerType"' in self.text else _OBJECT
        self._ascii = self.text.isascii()
        self._at = (0, 0, 1)  # character, byte and line of the last place

    def anchor(self, start: int, end: int) -> Anchor:
        """The place of a stretch; places must be asked in their order."""
        at, byte, line = self._at if self._at[0] <= start else (0, 0, 1)
        between = self.text[at:start]
        byte += len(between) if self._ascii else len(between.encode("utf-8", "replace"))
        line += between.count("\n")
        self._at = (start, byte, line)
        stretch = self.text[start:end]
        quoted = " ".join(stretch[:400].split())
        size = len(stretch) if self._ascii else len(stretch.encode("utf-8", "replace"))
        shown = quoted[:200]
        if not shown.isprintable():
            shown = "".join(c for c in shown if c.isprintable())
        return Anchor(self.name, byte, byte + size, line, shown)

    def whole(self) -> Anchor:
        """The place of the document."""
        return self.anchor(0, len(self.text))

    def list_start(self, key: str) -> int:
        """Where the items of the list under `key`, or of the list that is the document, begin; -1 if there is none."""
        if key and (m := re.search(rf'"{re.escape(key)}"\s*:\s*\[', self.text)) is not None:
            return m.end()
        m = re.search(r"\[(?=\s*[{\[\"\]])", self.text)
        return m.end() if m is not None and (not key or self.text[: m.start()].strip() == "") else -1

    def items(self, start: int) -> Iterator[Item]:
        """The items of the list that begins at `start`, up to its end; damaged ones are counted and passed over."""
        text, at, number = self.text, start, 0
        blank = _BLANK.match
        while True:
            at = blank(text, at).end()  # type: ignore[union-attr]  # matches always
            if at >= len(text):
                self.issues.add("engine/cut", self.name)
                return
            if text[at] == "]":
                return
            value, end, cut = self._item(at)
            if end < 0:
                resumed = self._next.search(text, at + 1)
                kind = "engine/cut" if cut and resumed is None else "engine/damaged"
                self.issues.add(kind, self.name, first=self.anchor(at, min(len(text), at + 400)))
                if resumed is None:
                    return
                at = text.index("{", resumed.start())
                continue
            yield Item(value, self.anchor(at, end), number)
            at, number = end, number + 1

    def _item(self, at: int) -> tuple[Any, int, bool]:
        """The value at `at`, its end (-1 of a damaged one), and whether the text ends within it."""
        try:
            value, end = _DECODER.raw_decode(self.text, at)
            return value, end, False
        except json.JSONDecodeError as error:
            cut = error.pos >= len(self.text.rstrip()) - 1 or error.msg.startswith("Unterminated string")
        except (ValueError, RecursionError):
            return None, -1, False
        stop = self._next.search(self.text, at + 1)
        piece = self.text[at : stop.start() if stop else at + MAX_ITEM]
        try:  # a name with a backslash that was not escaped, as TensorFlow on Windows writes them
            value, length = _DECODER.raw_decode(_ESCAPE.sub(r"\\\\", piece))
        except (ValueError, RecursionError):
            return None, -1, cut
        self.issues.add("engine/repaired", self.name, first=self.anchor(at, at + min(len(piece), 400)))
        return value, at + min(length, len(piece)), False

    def value(self, key: str) -> Any:
        """The value under a key of the document, None where it is missing or damaged."""
        for m in re.finditer(rf'"{re.escape(key)}"\s*:\s*', self.text):
            try:
                return _DECODER.raw_decode(self.text, m.end())[0]
            except (ValueError, RecursionError):
                continue
        return None
