"""`necropsy explain CODE`: a rule's page, by code, name or any name an article uses for it."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from necropsy.commands._terminal import ascii_only, colour, complain, emit, width

if TYPE_CHECKING:
    from necropsy.rule import Rule

_WIDEST: Final = 100  # cells of running text


def command(
    code: Annotated[str, typer.Argument(metavar="CODE", hidden=True)],
) -> int:
    """Explain a rule: what it means, why, and how to fix it.

    CODE is the rule's code or name, or another name that is used for it, in any case.
    """
    from necropsy.rule import all_rules

    found = find(all_rules(), code)
    if found is None:
        complain(_unknown(all_rules(), code))
        return 2
    emit(_page(found))
    return 0


def find(rules: Sequence[Rule], query: str) -> Rule | None:
    """The rule of that code, else of that name or alias."""
    key = _key(query)
    for names in (lambda r: (r.code,), lambda r: (r.name,), lambda r: r.aliases):
        for rule in rules:
            if key in map(_key, names(rule)):
                return rule
    return None


def _key(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.strip().casefold())


def _unknown(rules: Sequence[Rule], query: str) -> str:
    import difflib

    key = _key(query)
    family = [r.code for r in rules if key and _key(r.code).startswith(key)]
    if family:
        return f"{query} is a family of rules: {', '.join(family)}."
    names = {_key(name): f"{name} ({r.code})" if name != r.code else r.code for r in rules for name in _names(r)}
    close = [names[k] for k in difflib.get_close_matches(key, list(names), n=3, cutoff=0.6)]
    hint = f"; did you mean {', '.join(close)}?" if close else "; `necropsy rules` lists all."
    return f"there is no rule {query!r}{hint}"


def _names(rule: Rule) -> tuple[str, ...]:
    return (rule.code, rule.name, *rule.aliases)


def _page(rule: Rule) -> str:
    """The rule's docstring and its particulars, laid out for the terminal."""
    import io

    from rich.console import Console
    from rich.markdown import Markdown
    from rich.text import Text
    from rich.theme import Theme

    from necropsy.render.pages.rule_page import particulars, sections

    out = io.StringIO()
    console = Console(
        file=out,
        width=min(width(), _WIDEST),
        force_terminal=colour(sys.stdout),
        color_system="standard" if colour(sys.stdout) else None,
        theme=Theme({"markdown.code": "cyan", "markdown.h2": "bold"}),
        legacy_windows=False,
        _environ={},
    )
    console.print(Text(f"{rule.code} {rule.name}", "bold"))
    text = f"{sections(rule.doc)}\n\n## Particulars\n\n{particulars(rule)}"
    console.print(Markdown(text, code_theme="ansi_dark", hyperlinks=False))
    page = "\n".join(line.rstrip() for line in out.getvalue().splitlines()).rstrip() + "\n"
    page = re.sub(r"\n{3,}", "\n\n", page)
    return page.replace("•", "*").encode("ascii", "replace").decode() if ascii_only(sys.stdout) else page
