"""`optimizer.zero_grad()` to `zero_grad(set_to_none=True)`: drop gradients instead of filling them with zeros."""

from __future__ import annotations

import ast
from typing import Final

from necropsy_lsp.edit import Changes, Edit
from necropsy_lsp.edits._calls import Shape, call_on, with_true
from necropsy_lsp.edits._text import Text

NONE: Final = Shape("set_to_none", 0)


def change(text: Text, line: int) -> Changes:
    """The keyword on the line's only `zero_grad(...)`, which optimizers and modules take alike."""
    call = call_on(text, line, _zeroes)
    return with_true(text, call, NONE) if call is not None else None


def _zeroes(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad"


EDIT = Edit("set_to_none", "Add set_to_none=True", change)
