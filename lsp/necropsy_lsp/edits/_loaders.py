"""Calls that make a `DataLoader`, of torch or of a library that hands its keywords on to torch's."""

from __future__ import annotations

import ast
from typing import Final

from necropsy_lsp.edits._calls import call_on
from necropsy_lsp.edits._text import Text

LOADERS: Final = (
    "torch.utils.data.DataLoader",
    "torch.utils.data.dataloader.DataLoader",
    "torch_geometric.loader.DataLoader",
    "monai.data.DataLoader",
)
POSITIONAL: Final = LOADERS[:2]  # the others name fewer parameters


def loader_on(text: Text, line: int) -> ast.Call | None:
    """The only `DataLoader(...)` at the line whose parameters are known."""
    names = text.names
    call = call_on(text, line, lambda c: names.means(c.func, *LOADERS))
    if call is None or (len(call.args) > 1 and not names.means(call.func, *POSITIONAL)):
        return None
    return call
