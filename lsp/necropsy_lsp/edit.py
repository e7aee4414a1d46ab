"""A kind of edit: what it is called, and the change it makes at a line of a text.

One kind is one file in `edits/`, found by walking it. A kind gets a text that parses
and the line (from 0) that a finding claims; it finds the one call or statement there
that is meant and answers with a proved change, or with None when anything is unsure.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from msgspec import Struct

import necropsy_lsp.edits
from necropsy_lsp.edits._text import Change, Text, parsed

Changes = tuple[Change, ...] | None


class Edit(Struct, frozen=True):
    """`title` is what the editor offers; `change` is given a text and a line from 0."""

    name: str
    title: str
    change: Callable[[Text, int], Changes]

    def on(self, source: str, line: int) -> Changes:
        """The change at a line of a source text, or None."""
        text = parsed(source)
        return self.change(text, line) if text is not None else None


@cache
def all_edits() -> dict[str, Edit]:
    """Every kind of edit in `necropsy_lsp.edits`, by its name."""
    found: dict[str, Edit] = {}
    for info in pkgutil.iter_modules(necropsy_lsp.edits.__path__, "necropsy_lsp.edits."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, Edit):
                found[value.name] = value
    return found
