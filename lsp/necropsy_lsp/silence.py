"""A finding to the comment that suppresses it, in the syntax that `suppress` reads."""

from __future__ import annotations

import re
from typing import Final

from necropsy_lsp.edits._text import Change, Text, apply
from necropsy_lsp.suppress import silences

_LISTED: Final = re.compile(r"#[ \t]*necropsy:[ \t]*ignore[ \t]*\[([^\]\n]*)\]", re.IGNORECASE)
_CODE: Final = re.compile(r"[A-Z]{2,8}[0-9]{3}")


def suppression(text: Text, first: int, last: int, code: str) -> Change | None:
    """A comment on the first of the lines `first` to `last` that can hold one; None where none can."""
    if not _CODE.fullmatch(code):
        return None
    for line in range(first, min(last + 1, len(text.lines))):
        change = _on(text, line, code)
        if change is not None and _harmless(text, change, line, code):
            return change
    return None


def _on(text: Text, line: int, code: str) -> Change:
    """The comment behind a line, or one more code in the comment that is there."""
    start, content = text.starts[line], text.lines[line]
    if (found := _LISTED.search(content)) is not None:
        at = start + found.end(1)
        return Change(at, at, f", {code}" if found[1].strip() else code)
    at = start + len(content.rstrip())
    return Change(at, at, f"  # necropsy: ignore[{code}]")


def _harmless(text: Text, change: Change, line: int, code: str) -> bool:
    """Whether the changed text has the same tree, and a real comment that silences the rule."""
    if text.proved([change]) is None:
        return False
    start, end = text.starts[line], text.starts[line] + len(text.lines[line])
    changed = apply(text.source[start:end], [Change(change.start - start, change.end - start, change.text)])
    return silences(changed, code)
