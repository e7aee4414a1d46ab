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
from typing import Any, Final

from msgspec import Struct, field

from necropsy_lsp.edits._names import Names, names_of

LINE_END: Final = re.compile(r"\r\n|\r|\n")
BOM: Final = "\ufeff"
QUIET: Final = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT})
UNREADABLE: Final = (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError)


class Change(Struct, frozen=True):
    """Characters `start` to `end` become `text`."""

    start: int
    end: int
    text: str


class Token(Struct, frozen=True):
    """A token that is no white space; `start` and `end` are offsets, `text` that of operators and comments."""

    text: str
    start: int
    end: int
    comment: bool


class Wish(Struct, frozen=True):
    """What the tree should become: the field of one node holds this list instead."""

    node: ast.AST
    name: str
    value: list[Any]


class Part(Struct, frozen=True):
    """Whole lines `first` to `last` that hold whole statements of the module, and their offsets.

    What is proved of a part holds for the file: it begins and ends where no bracket, string or block is open.
    """

    first: int
    last: int
    start: int
    end: int
    statements: tuple[ast.stmt, ...]


class Text(Struct):
    """A text that parses, with the places of its nodes."""

    source: str
    tree: ast.Module
    starts: list[int]  # offset of each line
    lines: list[str]  # without their ends
    _tokens: dict[int, list[Token]] = field(default_factory=dict)
    _names: Names | None = None

    @property
    def names(self) -> Names:
        """What its names stand for."""
        if self._names is None:
            self._names = names_of(self.tree)
        return self._names

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
        return max(bisect.bisect_right(self.starts, offset) - 1, 0)

    def newline(self, line: int) -> str:
        """The line end that follows line `line` (from 0); that of the first line where it has none."""
        for number in (line, 0):
            end = self.starts[number] + len(self.lines[number])
            if match := LINE_END.match(self.source, end):
                return match[0]
        return "\n"

    def part(self, line: int) -> Part:
        """The statements of the module around a line (from 0); the line alone where there are none."""
        first = last = line
        found: list[ast.stmt] = []
        while True:  # statements can share lines: `a = 1; b = [` and more
            around = [s for s in self.tree.body if _first(s) - 1 <= last and _last(s) - 1 >= first]
            if len(around) == len(found):
                break
            found = around
            first, last = min(first, _first(found[0]) - 1), max(last, _last(found[-1]) - 1)
        stop = self.starts[last + 1] if last + 1 < len(self.starts) else len(self.source)
        return Part(first, last, self.starts[first], stop, tuple(found))

    def tokens(self, line: int) -> list[Token]:
        """Tokens of the statements around a line (from 0), comments among them. Raises one of `UNREADABLE`."""
        part = self.part(line)
        if part.first not in self._tokens:
            lines = "\n".join(self.lines[part.first : part.last + 1])
            self._tokens[part.first] = tokens_of(lines, self.starts[part.first :])
        return self._tokens[part.first]

    def proved(self, changes: Sequence[Change], wish: Wish | None = None) -> tuple[Change, ...] | None:
        """The changes, if they turn the tree into the wanted one and keep every comment; else None.

        Without a wish the tree must stay as it is.
        """
        part = self.part(self.line_of(min(change.start for change in changes)))
        if any(change.start < part.start or change.end > part.end for change in changes):
            return None
        moved = [Change(c.start - part.start, c.end - part.start, c.text) for c in changes]
        changed = parsed(apply(self.source[part.start : part.end], moved))
        try:
            if changed is None or [ast.dump(s) for s in changed.tree.body] != self._wanted(part, wish):
                return None
            kept = [token.text for token in self.tokens(part.first) if token.comment]
            if wish is not None and changed.comments() != kept:
                return None
        except UNREADABLE:
            return None
        return tuple(changes)

    def _wanted(self, part: Part, wish: Wish | None) -> list[str]:
        """The statements of a part as they should become."""
        if wish is None:
            return [ast.dump(statement) for statement in part.statements]
        old = getattr(wish.node, wish.name)
        try:
            setattr(wish.node, wish.name, wish.value)
            left = [s for s in part.statements if wish.node is not self.tree or s in wish.value]
            return [ast.dump(statement) for statement in left]
        finally:
            setattr(wish.node, wish.name, old)

    def comments(self) -> list[str]:
        """All comments of the text, in order. Raises one of `UNREADABLE`."""
        return [token.text for token in tokens_of("\n".join(self.lines), self.starts) if token.comment]


def _first(statement: ast.stmt) -> int:
    """Its first line, from 1; decorators stand above the `def`."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def _last(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


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
