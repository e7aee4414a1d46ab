"""A line to the one call on it that is meant, and a keyword to the smallest change of that call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from necropsy_lsp.edits._text import UNREADABLE, Change, Text, Token, Wish

OPENING: Final = frozenset("([{")
CLOSING: Final = frozenset(")]}")
TEMPLATES: Final = tuple(getattr(ast, name) for name in ("JoinedStr", "TemplateStr") if hasattr(ast, name))

Meant = Callable[[ast.Call], bool]


def call_on(text: Text, line: int, meant: Meant) -> ast.Call | None:
    """The only call of the kind that a claim on `line` (from 0) can mean; None when there are none or several."""
    found: list[ast.Call] = []
    for call, templated in calls_over(text.tree, line + 1):
        if meant(call):
            if templated:  # its place is not known before Python 3.12: a change there proves nothing
                return None
            found.append(call)
    return found[0] if len(found) == 1 and _begins_at(found[0], line + 1) else None


def calls_over(tree: ast.AST, line: int, templated: bool = False) -> Iterator[tuple[ast.Call, bool]]:
    """Calls whose text touches the line (from 1), and whether they stand in an f-string."""
    for node in ast.iter_child_nodes(tree):
        first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        inside = templated or isinstance(node, TEMPLATES)
        decorated = bool(getattr(node, "decorator_list", None))  # decorators stand above the first line
        if first is not None and last is not None and not inside and not decorated and not first <= line <= last:
            continue
        if isinstance(node, ast.Call):
            yield node, inside
        yield from calls_over(node, line, inside)


def _begins_at(call: ast.Call, line: int) -> bool:
    """Whether a claim on the line is one on this call, and not on another call in its arguments."""
    if line in (call.lineno, call.func.end_lineno):
        return True
    return next(calls_over(call, line), None) is None


class Shape(Struct, frozen=True):
    """How a function takes a parameter: `index` is its place among the positional ones, None for keyword-only."""

    name: str
    index: int | None = None


def with_true(text: Text, call: ast.Call, shape: Shape) -> tuple[Change, ...] | None:
    """The changes that make the call pass `True` for the parameter; None if it does or if that is not sure."""
    stars = [i for i, value in enumerate(call.args) if isinstance(value, ast.Starred)]
    if shape.index is not None and shape.index < len(call.args):
        if (stars and stars[0] <= shape.index) or keyword_of(call, shape.name) is not None:
            return None
        return _replaced(text, call, call.args[shape.index], shape)
    for keyword in call.keywords:
        if keyword.arg == shape.name:
            return _replaced(text, call, keyword.value, shape)
    if any(keyword.arg is None for keyword in call.keywords) or (stars and shape.index is not None):
        return None  # it may be passed already
    return _added(text, call, shape)


def is_constant(node: ast.expr | None, value: object) -> bool:
    """Whether an expression is this very constant."""
    return isinstance(node, ast.Constant) and node.value is value


def keyword_of(call: ast.Call, name: str) -> ast.expr | None:
    """The value that a call gives to a keyword, or None."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def true_keyword(name: str) -> ast.keyword:
    """`name=True` as a node."""
    return ast.keyword(name, ast.Constant(True))


def _replaced(text: Text, call: ast.Call, value: ast.expr, shape: Shape) -> tuple[Change, ...] | None:
    if is_constant(value, True):
        return None
    true = ast.Constant(True)
    if value in call.args:
        wish = Wish(call, "args", [true if argument is value else argument for argument in call.args])
    else:
        replaced = [ast.keyword(k.arg, true) if k.value is value else k for k in call.keywords]
        wish = Wish(call, "keywords", replaced)
    return text.proved([Change(*text.span(value), "True")], wish)


def _added(text: Text, call: ast.Call, shape: Shape) -> tuple[Change, ...] | None:
    try:
        change = insertion(text, call, f"{shape.name}=True")
    except UNREADABLE:
        return None
    wish = Wish(call, "keywords", [*call.keywords, true_keyword(shape.name)])
    return text.proved([change], wish) if change is not None else None


def insertion(text: Text, call: ast.Call, argument: str) -> Change | None:
    """One more argument behind the last one, laid out as the call is."""
    tokens = text.tokens(call.lineno - 1)
    inside = _between_parentheses(tokens, text.span(call)[1])
    if inside is None:
        return None
    opening, closing = inside
    last = closing - 1
    while tokens[last].comment:
        last -= 1
    at = tokens[last].end
    if last == opening:
        return Change(at, at, argument)
    if tokens[last].text != ",":
        return Change(at, at, f", {argument}")
    indent = _own_line(text, tokens, opening, last)
    if indent is None:
        return Change(at, at, f" {argument},")
    line = text.line_of(at)
    end = text.starts[line] + len(text.lines[line])
    return Change(end, end, f"{text.newline(line)}{indent}{argument},")


def _between_parentheses(tokens: list[Token], end: int) -> tuple[int, int] | None:
    """Indices of the parentheses around the arguments of the call that ends at `end`."""
    closing = next((i for i, token in enumerate(tokens) if token.end == end and token.text == ")"), None)
    if closing is None:
        return None
    depth = 0
    for index in range(closing, -1, -1):
        word = tokens[index].text
        depth += (word in CLOSING) - (word in OPENING)
        if depth == 0:
            return index, closing
    return None


def _own_line(text: Text, tokens: list[Token], opening: int, comma: int) -> str | None:
    """The indentation of the last argument, where it and the closing parenthesis have lines of their own."""
    first, depth = comma, 0
    while first - 1 > opening:
        word = tokens[first - 1].text
        depth += (word in CLOSING) - (word in OPENING)
        if word == "," and depth == 0:
            break
        first -= 1
    while tokens[first].comment:
        first += 1
    line = text.line_of(tokens[first].start)
    before = text.source[text.starts[line] : tokens[first].start]
    following = tokens[comma + 1]
    if following.comment:
        following = tokens[comma + 2]
    alone = not before.strip() and text.line_of(following.start) > text.line_of(tokens[comma].start)
    return before if alone else None
