"""`DataLoader(...)` to `DataLoader(..., pin_memory=True)`: batches in memory that the GPU can copy from directly."""

from __future__ import annotations

from typing import Final

from necropsy_lsp.edit import Changes, Edit
from necropsy_lsp.edits._calls import Shape, with_true
from necropsy_lsp.edits._loaders import loader_on
from necropsy_lsp.edits._text import Text

PIN: Final = Shape("pin_memory", 7)


def change(text: Text, line: int) -> Changes:
    """The keyword on the line's only `DataLoader(...)`."""
    call = loader_on(text, line)
    return with_true(text, call, PIN) if call is not None else None


EDIT = Edit("pin_memory", "Add pin_memory=True", change)
