"""`AdamW(...)` to `AdamW(..., fused=True)`: one kernel a step for many parameters; `foreach` cannot stand beside it."""

from __future__ import annotations

import ast
from typing import Final

from necropsy_lsp.edit import Changes, Edit
from necropsy_lsp.edits._calls import Shape, call_on, is_constant, keyword_of, true_keyword, with_true
from necropsy_lsp.edits._text import UNREADABLE, Change, Text, Wish

FUSED: Final = Shape("fused")
CLASSES: Final = {"Adam": "adam", "AdamW": "adamw", "SGD": "sgd"}
OPTIMIZERS: Final = tuple(
    name for cls, module in CLASSES.items() for name in (f"torch.optim.{cls}", f"torch.optim.{module}.{cls}")
)


def change(text: Text, line: int) -> Changes:
    """The keyword on the line's only optimizer of torch; a constant `foreach` goes."""
    names = text.names
    call = call_on(text, line, lambda c: names.means(c.func, *OPTIMIZERS))
    if call is None or not _off(keyword_of(call, "differentiable")):
        return None
    foreach = next((k for k in call.keywords if k.arg == "foreach"), None)
    if foreach is None:
        return with_true(text, call, FUSED)
    if not isinstance(foreach.value, ast.Constant):
        return None
    fused = next((k for k in call.keywords if k.arg == "fused"), None)
    if fused is None:
        return _instead(text, call, foreach)
    return _beside(text, call, foreach, fused)


def _off(value: ast.expr | None) -> bool:
    return value is None or is_constant(value, False)


def _instead(text: Text, call: ast.Call, foreach: ast.keyword) -> Changes:
    """`fused=True` where `foreach=...` stands."""
    if any(k.arg is None for k in call.keywords):
        return None
    wanted = [true_keyword("fused") if k is foreach else k for k in call.keywords]
    return text.proved([Change(*text.span(foreach), "fused=True")], Wish(call, "keywords", wanted))


def _beside(text: Text, call: ast.Call, foreach: ast.keyword, fused: ast.keyword) -> Changes:
    """`foreach=...` removed, and `fused=` set where it is not."""
    wanted = [true_keyword("fused") if k is fused else k for k in call.keywords if k is not foreach]
    changes = [] if is_constant(fused.value, True) else [Change(*text.span(fused.value), "True")]
    try:
        removals = removal(text, foreach)
    except UNREADABLE:
        return None
    proofs = (text.proved([*changes, change], Wish(call, "keywords", wanted)) for change in removals)
    return next((proof for proof in proofs if proof is not None), None)


def removal(text: Text, keyword: ast.keyword) -> list[Change]:
    """Ways to take a keyword out of its call, the tidiest first; not each fits each call."""
    tokens = text.tokens(keyword.lineno - 1)
    start, end = text.span(keyword)
    before = max((t for t in tokens if t.end <= start and not t.comment), key=lambda t: t.end)
    after = min((t for t in tokens if t.start >= end and not t.comment), key=lambda t: t.start)
    found: list[Change] = []
    line = text.line_of(start)
    first, last = text.starts[line], text.starts[line] + len(text.lines[line])
    following = text.starts[line + 1] if line + 1 < len(text.starts) else last
    if after.text == "," and not text.source[first:start].strip() and not text.source[after.end : last].strip():
        found.append(Change(first, following, ""))  # a line of its own
    if before.text == ",":
        found.append(Change(before.start, end, ""))
    if after.text == ",":
        behind = after.end
        while text.source[behind : behind + 1] in (" ", "\t"):
            behind += 1
        found.append(Change(start, behind, ""))
    return found


EDIT = Edit("fused", "Add fused=True", change)
