"""A finding at a line to what an editor can offer: proved edits, shown fixes, suppression, evidence, explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from necropsy_lsp.edit import all_edits
from necropsy_lsp.edits._text import Change, Text
from necropsy_lsp.edits.table import edits_for
from necropsy_lsp.placed import Shown
from necropsy_lsp.silence import suppression
from necropsy_lsp.stored import Anchor, Fix

SHOW_FIX: Final = "necropsy.showFix"
OPEN_EVIDENCE: Final = "necropsy.openEvidence"
EXPLAIN: Final = "necropsy.explain"
TITLE: Final = 120  # characters of a title
EVIDENCE: Final = 3  # anchors offered for one finding
FIXES: Final = 8


class Action(Struct, frozen=True):
    """Either `changes` of the document or a `command` of the server with its arguments."""

    title: str
    shown: Shown
    changes: tuple[Change, ...] = ()
    command: str = ""
    arguments: tuple[Any, ...] = ()
    preferred: bool = False


Locate = Callable[[Path, str], str | None]  # project and name of an input -> URI of a file that exists


def actions_of(shown: Shown, text: Text | None, locate: Locate) -> Iterator[Action]:
    """All that can be offered, in this order; `text` is the document if it parses."""
    finding = shown.finding
    for fix in finding.fixes[:FIXES]:
        yield from _fix(fix, shown, text)
    if shown.place_index:  # what stands here only belongs to it
        return
    if text is not None and (comment := suppression(text, shown.line, shown.end_line, finding.rule)) is not None:
        yield Action(f"Suppress {finding.rule} here", shown, (comment,))
    for anchor, uri in _evidence(shown, locate):
        yield Action(f"Open {anchor.input}:{anchor.line}", shown, (), OPEN_EVIDENCE, (uri, anchor.line))
    yield Action(f"Explain {finding.rule}", shown, (), EXPLAIN, (finding.rule,))


def _fix(fix: Fix, shown: Shown, text: Text | None) -> Iterator[Action]:
    """The edits that a fix asks for where they are proved, else the fix in words."""
    proved = False
    for name in edits_for(shown.finding.rule, fix.kind, fix.title, fix.command):
        if text is not None and not shown.stale and (changes := _changes(name, shown, text)) is not None:
            proved = True
            title = f"{all_edits()[name].title} ({shown.finding.rule})"
            yield Action(title, shown, changes, preferred=fix.safety == "safe")
    if not proved and not shown.place_index:
        yield Action(_short(f"Show fix: {fix.title}"), shown, (), SHOW_FIX, (fix.title, fix.command))


def _changes(name: str, shown: Shown, text: Text) -> tuple[Change, ...] | None:
    """The edit at the finding's line, or at the only line of its statement that has one."""
    change = all_edits()[name].change
    if (changes := change(text, shown.line)) is not None:
        return changes
    found = {made for line in range(shown.line + 1, shown.end_line + 1) if (made := change(text, line)) is not None}
    return found.pop() if len(found) == 1 else None


def _evidence(shown: Shown, locate: Locate) -> list[tuple[Anchor, str]]:
    anchors: Sequence[Anchor] = (shown.finding.anchor, *shown.finding.related)
    places = {(a.input, a.line): a for a in reversed(anchors)}
    found = [(a, locate(shown.project, a.input)) for a in reversed(places.values())]
    return [(anchor, uri) for anchor, uri in found if uri is not None][:EVIDENCE]


def _short(title: str) -> str:
    title = " ".join(title.split())
    return title if len(title) <= TITLE else f"{title[: TITLE - 1]}…"
