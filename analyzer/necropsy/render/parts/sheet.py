"""Styled spans -> laid-out text: wraps prose, keeps places and commands whole (by rich).

The only module that knows rich's types; a sheet reads no environment, so the same
calls always give the same text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.containers import Lines
from rich.text import Text

from necropsy.render import View
from necropsy.render.parts.printable import printable

Span = str | tuple[str, str]

STYLES: Final = {
    "fatal": "bold red",
    "error": "bold red",
    "warning": "bold yellow",
    "note": "bold blue",
    "place": "bold cyan",
    "head": "bold",
    "mark": "bold red",
    "command": "green",
    "dim": "dim",
    "": "",
}
_GLYPHS: Final = {"…": "...", "│": "|", "█": "#"}


class Sheet:
    """Collects lines; `text()` gives them all."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._console = Console(
            file=io.StringIO(),
            width=max(view.width, 40),
            force_terminal=view.colour,
            color_system="standard" if view.colour else None,
            legacy_windows=False,
            highlight=False,
            emoji=False,
            markup=False,
            _environ={},
        )
        self._lines: list[Text] = []

    @property
    def width(self) -> int:
        """Cells in a line."""
        return self._console.width

    def line(self, *spans: Span) -> None:
        """One line that is never wrapped."""
        self._lines.append(self._text(spans))

    def clipped(self, *spans: Span) -> None:
        """One line, cut off with an ellipsis at the right edge."""
        text = self._text(spans)
        if cell_len(text.plain) > self.width:
            ellipsis = self.glyph("…")
            text.truncate(self.width - len(ellipsis))
            text.rstrip()
            text.append(ellipsis)
        self._lines.append(text)

    def para(self, *spans: Span, indent: int = 0, first: Span = "", most: int = 0, fold: bool = False) -> None:
        """Wrapped prose, `indent` cells from the left; `first` stands in the first line's indent.

        Words are not broken, so that a `file:line` stays whole, unless `fold` is set or the
        word is in a script without spaces. `most` limits the lines; the last one then ends
        in an ellipsis.
        """
        room = self.width - indent
        text = self._text(spans)
        fold = fold or any(cell_len(word) > max(room, len(word)) for word in text.plain.split())
        wrapped = list(text.wrap(self._console, room, overflow="fold") if fold else _by_words(text, room))
        if most and len(wrapped) > most:
            end = self.glyph("…")
            last = wrapped[most - 1]
            last.rstrip()
            last.truncate(room - len(end))
            last.rstrip()
            last.append(end)
            wrapped = wrapped[:most]
        for number, line in enumerate(wrapped or [Text()]):
            head = self._text((first,)) if number == 0 else Text()
            head.append(" " * (indent - cell_len(head.plain)))
            line.rstrip()
            self._lines.append(head + line)

    def listing(self, items: Sequence[str], indent: int, first: Span = "") -> None:
        """`a; b; c`, broken between items rather than inside one."""
        rows: list[str] = []
        for item in items:
            if rows and self.cells(f"{rows[-1]}; {item};") <= self.width - indent:
                rows[-1] += f"; {item}"
            else:
                rows = [*rows[:-1], f"{rows[-1]};", item] if rows else [item]
        for number, row in enumerate(rows):
            self.para(row, indent=indent, first=first if number == 0 else "")

    def gap(self) -> None:
        """One blank line, unless there is one already."""
        if self._lines and self._lines[-1].plain:
            self._lines.append(Text())

    def glyph(self, character: str) -> str:
        """`character`, or its stand-in on an ASCII terminal."""
        return _GLYPHS[character] if self.view.ascii else character

    def cells(self, *spans: Span) -> int:
        """How wide the spans are once they are shown."""
        return cell_len(self._text(spans).plain)

    def clip(self, text: str, room: int) -> str:
        """`text` in at most `room` cells."""
        text = printable(text, self.view.ascii)
        if cell_len(text) <= room:
            return text
        end = self.glyph("…")
        return set_cell_size(text, max(room - len(end), 0)).rstrip() + end

    def text(self) -> str:
        """Everything so far, ending in one newline."""
        out = io.StringIO()
        self._console.file = out
        while self._lines and not self._lines[-1].plain:
            self._lines.pop()
        for line in self._lines:
            line.rstrip()
            self._console.print(line, soft_wrap=True)
        return out.getvalue()

    def _text(self, spans: tuple[Span, ...]) -> Text:
        text = Text()
        for span in spans:
            words, style = (span, "") if isinstance(span, str) else span
            text.append(printable(words, self.view.ascii), STYLES[style])
        return text


def _by_words(text: Text, room: int) -> Lines:
    """Break between words only. Rich can wrap or leave long words whole, but not both."""
    breaks: list[int] = []
    used = 0
    for word in re.finditer(r"\S+\s*", text.plain):
        if used and used + cell_len(word[0].rstrip()) > room:
            breaks.append(word.start())
            used = 0
        used += cell_len(word[0])
    return text.divide(breaks)
