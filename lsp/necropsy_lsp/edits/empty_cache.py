"""A statement that is only `torch.cuda.empty_cache()`, removed: the next allocations need not ask the driver again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from necropsy_lsp.edit import Changes, Edit
from necropsy_lsp.edits._text import UNREADABLE, Change, Text, Wish

CALLS: Final = ("torch.cuda.empty_cache", "torch.cuda.memory.empty_cache")


def change(text: Text, line: int) -> Changes:
    """The line's only such statement removed, or replaced by `pass` where its block would be empty."""
    names = text.names
    found = [
        (parent, name, body, node)
        for parent, name, body in bodies(text.tree)
        for node in body
        if isinstance(node, ast.Expr)
        and node.lineno <= line + 1 <= (node.end_lineno or node.lineno)
        and isinstance(node.value, ast.Call)
        and not node.value.args
        and not node.value.keywords
        and names.means(node.value.func, *CALLS)
    ]
    if len(found) != 1:
        return None
    parent, name, body, node = found[0]
    start, end = text.span(node)
    if len(body) == 1 and not isinstance(parent, ast.Module):
        return text.proved([Change(start, end, "pass")], Wish(parent, name, [ast.Pass()]))
    wish = Wish(parent, name, [other for other in body if other is not node])
    try:
        removals = list(_removals(text, start, end))
    except UNREADABLE:
        return None
    return next((proof for change in removals if (proof := text.proved([change], wish)) is not None), None)


def bodies(tree: ast.AST) -> Iterator[tuple[ast.AST, str, list[ast.stmt]]]:
    """Every list of statements, with the node and the field that hold it."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body:
                yield node, name, body


def _removals(text: Text, start: int, end: int) -> Iterator[Change]:
    """Ways to take a statement out, the tidiest first; not each fits each line."""
    first, last = text.line_of(start), text.line_of(end)
    begin, stop = text.starts[first], text.starts[last] + len(text.lines[last])
    head, tail = text.source[begin:start], text.source[end:stop]
    if not head.strip() and not tail.strip(" \t;"):
        yield Change(begin, text.starts[last + 1] if last + 1 < len(text.starts) else stop, "")
    tokens = text.tokens(first)
    after = next((token for token in tokens if token.start >= end), None)
    if after is not None and after.text == ";":
        following = next((token for token in tokens if token.start >= after.end), None)
        if following is not None and text.line_of(following.start) == text.line_of(after.start):
            yield Change(start, following.start, "")
    before = max((token for token in tokens if token.end <= start), key=lambda token: token.end, default=None)
    if before is not None and before.text == ";":
        yield Change(before.start, end, "")
    yield Change(start, end, "")  # a comment behind it stays


EDIT = Edit("empty_cache", "Remove torch.cuda.empty_cache()", change)
