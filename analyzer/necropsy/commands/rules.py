"""`necropsy rules`: the list of rules, and the reference pages made from what is declared."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from necropsy.commands._terminal import colour, complain, emit, width

if TYPE_CHECKING:
    from necropsy.render.pages.rule_page import Case

EXAMPLE_WIDTH: Final = 80
_NOT_INPUTS: Final = (".md", ".toml")  # a case's own description


def command(
    write: Annotated[
        Path | None,
        typer.Option(
            "--write", metavar="DIR", help="Generate the reference pages of rules, formats and tables in DIR."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="With --write: change nothing, name the pages that are out of date.")
    ] = False,
) -> int:
    """List all rules: code, name, severity and what they say."""
    if write is None:
        if check:
            raise typer.BadParameter("needs --write DIR.", param_hint="--check")
        emit(_listing())
        return 0
    from necropsy.render import pages

    made = reference(write.absolute().parent / "fixtures")
    if check:
        stale = pages.stale(write, made)
        for page in stale:
            complain(f"{write / page} is out of date; `necropsy rules --write {write}` renews it.")
        return int(bool(stale))
    try:
        changed = pages.write(write, made)
    except OSError as error:
        complain(f"cannot write {error.filename}: {error.strerror}.")
        return 2
    emit("".join(f"{write / page}\n" for page in changed))
    return 0


def _listing() -> str:
    from necropsy.render import View
    from necropsy.render.parts.sheet import Sheet
    from necropsy.rule import all_rules

    rules = all_rules()
    sheet = Sheet(View(width=width(), colour=colour(sys.stdout)))
    names = max((len(r.name) for r in rules), default=0)
    show = sheet.clipped if sys.stdout.isatty() else sheet.line  # a pipe gets whole lines
    for rule in rules:
        severity = (f"{rule.severity.label:<9}", rule.severity.label)
        show((f"{rule.code}  ", "head"), f"{rule.name:<{names}}  ", severity, rule.summary)
    return sheet.text()


def reference(fixtures: Path) -> dict[str, str]:
    """Every reference page: path below the documentation folder -> text."""
    from necropsy_parsers.formats import all_formats
    from necropsy_parsers.messages import all_messages
    from necropsy_parsers.tallies import all_tallies

    from necropsy.evidence import all_tables
    from necropsy.render.pages.format_page import format_page
    from necropsy.render.pages.messages_page import messages_page
    from necropsy.render.pages.rule_page import cases_of, index_page, rule_page
    from necropsy.render.pages.tables_page import tables_page
    from necropsy.render.pages.torch_logs_page import torch_logs_page
    from necropsy.rule import all_rules

    made = {"rules/README.md": index_page(all_rules()), "tables.md": tables_page(all_tables())}
    made["messages.md"] = messages_page(all_messages())
    readers = [*((m.name, m.reads) for m in all_messages()), *((t.name, t.reads) for t in all_tallies())]
    made["torch-logs.md"] = torch_logs_page(readers)
    for rule in all_rules():
        cases = cases_of(fixtures, rule.code)
        firing = next((case for case in cases if case.fires), None)
        made[f"rules/{rule.code}.md"] = rule_page(rule, cases, example(firing) if firing else "")
    for format in all_formats():
        made[f"formats/{format.name}.md"] = format_page(format, all_tables())
    return made


def example(case: Case) -> str:
    """The text report of a case, as its reader would get it in the case's own folder."""
    from necropsy import api
    from necropsy.commands._sources import locator
    from necropsy.config import Config
    from necropsy.render import View, renderers

    inputs = sorted(p.name for p in case.folder.iterdir() if p.is_file() and p.suffix not in _NOT_INPUTS)
    with tempfile.TemporaryDirectory() as folder:
        # Sources are looked for in three folders above an input: beside each other, cases would find each other's.
        alone = Path(folder, "a", "b", "c", case.folder.name)
        shutil.copytree(case.folder, alone)
        sources = tuple(str(p) for p in [alone / "src"] if p.is_dir())
        with contextlib.chdir(alone):  # inputs are shown as they were named
            report = api.analyze(inputs, config=Config(source=sources))
            view = View(EXAMPLE_WIDTH, base=os.getcwd(), excerpt=report.excerpt, locate=locator(report))
            return renderers()["text"].render(report, view)
