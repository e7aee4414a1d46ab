"""Which fix of a finding asks for which kind of edit: by rule, kind and the words of its title and command.

The first row that fits counts. A rule names the keyword in what it tells the user, so that most new
rules need no row here. A fix that fits no row is only shown.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct


class Row(Struct, frozen=True):
    """A fix of a rule whose code begins with `rules`, and whose title or command holds `words`, asks for `edit`."""

    edit: str
    words: str
    rules: str = ""


ROWS: Final = (
    Row("pin_memory", r"\bpin_memory\s*=\s*True\b"),
    Row("non_blocking", r"\bnon_blocking\s*=\s*True\b"),
    Row("fused", r"\bfused\s*=\s*True\b"),
    Row("set_to_none", r"\bset_to_none\s*=\s*True\b"),
    Row("drop_last", r"\bdrop_last\s*=\s*True\b"),
    Row("empty_cache", r"(?i)\b(?:remove|delete|drop|take out)\b.*\bempty_cache\(\)"),
)
KINDS: Final = frozenset({"code"})  # a fix of another kind changes no source


def edits_for(rule: str, kind: str, title: str, command: str) -> list[str]:
    """Names of the kinds of edit that a fix asks for, in the order of the table: it may name several keywords."""
    if kind not in KINDS:
        return []
    said = f"{title}\n{command}"
    return [row.edit for row in ROWS if rule.startswith(row.rules) and re.search(row.words, said)]
