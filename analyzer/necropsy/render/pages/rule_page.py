"""A declared rule and its cases -> its page; all rules -> the index."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from necropsy.render.markdown import fence
from necropsy.render.pages import MARK, cell, from_docstring
from necropsy.rule import HEADINGS, Rule, settings_of

_UNDERLINE: Final = re.compile(r"[-=~^]{3,}")


class Case(Struct, frozen=True):
    """A fixture of a rule: what it shows, and where it comes from."""

    folder: Path
    title: str
    origin: str
    fires: bool


def cases_of(fixtures: Path, code: str) -> list[Case]:
    """The cases under `fixtures/rules/<CODE>`, those that fire first."""
    found = []
    for prefix in ("fires-", "silent-"):
        for folder in sorted((fixtures / "rules" / code).glob(f"{prefix}*")):
            title = folder.name.removeprefix(prefix).replace("-", " ")
            found.append(Case(folder, title, _first_paragraph(folder / "origin.md"), prefix == "fires-"))
    return found


def _first_paragraph(file: Path) -> str:
    text = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    return " ".join(text.split("\n\n")[0].lstrip("# ").split())


def particulars(rule: Rule) -> str:
    """Severity, age, tables, settings and other names, as a Markdown list."""
    needs = [f"`{table.name}`{' (if at hand)' if optional else ''}" for _, table, optional in rule.needs]
    rows = [f"Severity: {rule.severity.label}", f"Since: {rule.since}", f"Needs: {', '.join(needs) or 'nothing'}"]
    settings = [f"`{name} = {_toml(default)}`" for name, (_, default) in settings_of(rule).items()]
    rows += [f"Settings: {', '.join(settings)}"] if settings else []
    rows += [f"Also known as: {', '.join(f'`{alias}`' for alias in rule.aliases)}"] if rule.aliases else []
    return "\n".join(f"- {row}" for row in rows)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def sections(doc: str) -> str:
    """A rule's docstring as Markdown: the fixed headings become headings, their indented texts running text."""
    blocks: list[tuple[str, list[str]]] = [("", [])]
    for line in doc.strip().splitlines():
        title = line.strip("# ").rstrip(":")
        if title in HEADINGS and not line.startswith(" "):
            blocks.append((f"## {title}\n\n", []))
        elif blocks[-1][1] or not _UNDERLINE.fullmatch(line.strip()):
            blocks[-1][1].append(line)
    return "\n\n".join(heading + from_docstring(textwrap.dedent("\n".join(body))) for heading, body in blocks)


def rule_page(rule: Rule, cases: Sequence[Case], example: str) -> str:
    """The whole page; `example` is the report of the first case that fires, as text."""
    parts = [MARK, f"# {rule.code}: {rule.name}", particulars(rule), sections(rule.doc)]
    if example:
        parts += ["## Example", f"The case *{next(c.title for c in cases if c.fires)}* as `necropsy analyze` shows it:"]
        parts.append(fence(example.rstrip("\n").split("\n")))
    parts += _listed("Cases that it finds", [c for c in cases if c.fires])
    parts += _listed("What this is not", [c for c in cases if not c.fires])
    return "\n\n".join(parts) + "\n"


def _listed(heading: str, cases: Sequence[Case]) -> list[str]:
    rows = [f"- {case.title}" + (f" ({case.origin.rstrip('.')})" if case.origin else "") for case in cases]
    return [f"## {heading}", "\n".join(rows)] if rows else []


def index_page(rules: Sequence[Rule]) -> str:
    """The list of all rules as a table."""
    rows = [f"| [{r.code}]({r.code}.md) | {r.name} | {r.severity.label} | {cell(r.summary)} |" for r in rules]
    table = "\n".join(["| Code | Name | Severity | What it says |", "| --- | --- | --- | --- |", *rows])
    return f"{MARK}\n\n# Rules\n\n`necropsy explain CODE` shows these pages in the terminal.\n\n{table}\n"
