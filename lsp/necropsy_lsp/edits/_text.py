"""A source text to its tree and tokens, and changes of it to a proof that they do what was wanted.

Trees count UTF-8 bytes, tokens count characters, and both see line ends as `\\n`; here all
places are offsets of characters in the text as the editor holds it.
"""

from __future__ import annotations

import ast
import bisect
import io
import re
import tokenize
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

LINE_END: Final = re.compile(r"\r\n|\r|\n")
BOM: Final = "\ufeff"
QUIET: Final = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT})
UNREADABLE: Final = (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError)


@dataclass(frozen=True, slots=True)
class Change:
    """Characters `start` to `end` become `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Token:
    """A token that is no white space; `start` and `end` are offsets, `text` that of operators and comments."""

    text: str
    start: int
    end: int
    comment: bool


@dataclass(frozen=True, slots=True)
class Wish:
    """What the tree should become: the field of one node holds this list instead."""

    node: ast.AST
    name: str
    value: list[Any]


@dataclass(slots=True)
class Text:
    """A text that parses, with the places of its nodes."""

    source: str
    tree: ast.Module
    starts: list[int]  # offset of each line
    lines: list[str]  # without their ends
    _tokens: list[Token] = field(default_factory=list)

    def offset(self, line: int, column: int) -> int:
        """Offset of a token's place: `line` from 1, `column` in characters."""
        return self.starts[line - 1] + column

    def span(self, node: Any) -> tuple[int, int]:
        """Offsets of a node's first character and of what follows its last."""
        return self._place(node.lineno, node.col_offset), self._place(node.end_lineno, node.end_col_offset)

    def _place(self, line: int, column: int) -> int:
        text = self.lines[line - 1]
        if not text.isascii():
            column = len(text.encode()[:column].decode())
        return self.starts[line - 1] + column

    def line_of(self, offset: int) -> int:
        """The line, from 0, that holds an offset."""
        return bisect.bisect_right(self.starts, offset) - 1

    def newline(self, line: int) -> str:
        """The line end that follows line `line` (from 0); that of the first line where it has none."""
        for number in (line, 0):
            end = self.starts[number] + len(self.lines[number])
            if match := LINE_END.match(self.source, end):
                return match[0]
        return "\n"

    def tokens(self) -> list[Token]:
        """Tokens in order, comments among them. Raises one of `UNREADABLE`."""
        if not self._tokens:
            self._tokens = tokens_of("\n".join(self.lines), self.starts)
        return self._tokens

    def proved(self, changes: Sequence[Change], wish: Wish) -> tuple[Change, ...] | None:
        """The changes, if they turn the tree into the wanted one and keep every comment; else None."""
        old = getattr(wish.node, wish.name)
        try:
            setattr(wish.node, wish.name, wish.value)
            wanted = ast.dump(self.tree)
        except RecursionError:
            return None
        finally:
            setattr(wish.node, wish.name, old)
        changed = parsed(apply(self.source, changes))
        try:
            if changed is None or ast.dump(changed.tree) != wanted or changed.comments() != self.comments():
                return None
        except UNREADABLE:
            return None
        return tuple(changes)

    def comments(self) -> list[str]:
        """All comments, in order."""
        return [token.text for token in self.tokens() if token.comment]


def parsed(source: str) -> Text | None:
    """The text with its tree, or None when it does not parse; nothing in it is executed."""
    lines = LINE_END.split(source)
    starts, at = [0], 0
    for match in LINE_END.finditer(source):
        at = match.end()
        starts.append(at)
    if source.startswith(BOM):  # the compiler takes it in bytes only
        starts[0], lines[0] = 1, lines[0][1:]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the compiler thinks of the user's escapes is no matter here
            tree = ast.parse("\n".join(lines))
    except UNREADABLE:
        return None
    return Text(source, tree, starts, lines)


def tokens_of(text: str, starts: Sequence[int]) -> list[Token]:
    """Tokens of a text whose lines begin at these offsets. Raises one of `UNREADABLE`."""
    found: list[Token] = []
    for kind, word, start, end, _ in tokenize.generate_tokens(io.StringIO(text).readline):
        if kind == tokenize.ENDMARKER or (kind in QUIET and kind != tokenize.COMMENT):
            continue
        first, last = starts[start[0] - 1] + start[1], starts[end[0] - 1] + end[1]
        told = kind in (tokenize.OP, tokenize.COMMENT)  # a part of an f-string can look like an operator
        found.append(Token(word if told else "", first, last, kind == tokenize.COMMENT))
    return found


def apply(source: str, changes: Iterable[Change]) -> str:
    """The source with the changes made."""
    for change in sorted(changes, key=lambda c: c.start, reverse=True):
        source = source[: change.start] + change.text + source[change.end :]
    return source
