"""Rule codes to the text of the pages that explain them, read from the source of the rules: none is imported for it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

import necropsy

_CODE: Final = re.compile(r"[A-Za-z]{2,8}[0-9]{3}")
_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)


class RuleText(Struct, frozen=True):
    """One line that sums a rule up, and the rest of its page as Markdown with bold headings."""

    code: str
    summary: str
    body: str

    @property
    def page(self) -> str:
        """The whole page."""
        return f"# {self.code}: {self.summary}\n\n{self.body}\n"


@cache
def rule_text(code: str) -> RuleText | None:
    """The text of the rule, or None for a code that is none, such as one of a newer release."""
    from necropsy.render.pages.rule_page import sections

    file = _files().get(code.upper()) if _CODE.fullmatch(code) else None
    if file is None:
        return None
    doc = ast.get_docstring(ast.parse(file.read_bytes())) or ""
    summary, _, rest = doc.strip().partition("\n")
    return RuleText(code.upper(), summary, _HEADING.sub(r"**\1**", sections(rest)).strip())


def rule_lines() -> list[tuple[str, str]]:
    """Code and title of every rule, by code."""
    return [(code, text.summary) for code in sorted(_files()) if (text := rule_text(code)) is not None]


@cache
def _files() -> dict[str, Path]:
    """Code -> file: each rule stands in a file that begins with its code."""
    rules = Path(necropsy.__file__).parent / "rules"
    return {path.name.partition("_")[0].upper(): path for path in rules.glob("*/*.py") if path.name[0] != "_"}
