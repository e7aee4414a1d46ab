"""`DataLoader(...)` to `DataLoader(..., drop_last=True)`: no ragged last batch."""

from __future__ import annotations

import ast
from typing import Final

from necropsy_lsp.edit import Changes, Edit
from necropsy_lsp.edits._calls import Shape, is_constant, keyword_of, with_true
from necropsy_lsp.edits._loaders import loader_on
from necropsy_lsp.edits._text import Text

DROP: Final = Shape("drop_last", 8)
BATCH_SIZE: Final = 1
BATCH_SAMPLER: Final = 4


def change(text: Text, line: int) -> Changes:
    """The keyword on the line's only `DataLoader(...)`, unless torch would refuse the two together."""
    call = loader_on(text, line)
    return with_true(text, call, DROP) if call is not None and makes_batches(call) else None


def makes_batches(call: ast.Call) -> bool:
    """Whether the loader itself makes the batches: with a batch sampler or no batch size, drop_last raises."""
    size, sampler = _argument(call, BATCH_SIZE, "batch_size"), _argument(call, BATCH_SAMPLER, "batch_sampler")
    return not is_constant(size, None) and (sampler is None or is_constant(sampler, None))


def _argument(call: ast.Call, index: int, name: str) -> ast.expr | None:
    return call.args[index] if len(call.args) > index else keyword_of(call, name)


EDIT = Edit("drop_last", "Add drop_last=True", change)
