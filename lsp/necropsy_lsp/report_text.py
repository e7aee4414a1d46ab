"""All that is known to one Markdown document: what a client shows as the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.render.parts import words
from necropsy_lsp.describe import Markdown, finding_text
from necropsy_lsp.evidence import line_uri
from necropsy_lsp.placed import Shown
from necropsy_lsp.session import Session
from necropsy_lsp.sources import Source

_MOST: Final = 200  # findings of one source that are told in full
NOTHING: Final = "Nothing was found, or nothing has been analyzed yet."


def report_text(session: Session) -> str:
    """One chapter a source, the newest first; a finding that a newer source tells too is not told again."""
    told: set[str] = set()
    blocks: list[str] = ["# Necropsy"]
    for source in session.all_sources():
        chapter = list(_chapter(source, session, told))
        blocks += chapter
    return "\n\n".join(blocks if len(blocks) > 1 else [*blocks, NOTHING]) + "\n"


def _chapter(source: Source, session: Session, told: set[str]) -> Iterator[str]:
    style = Markdown()
    fresh = [f for f in source.findings if session.settings.shows(f.rule) and f.fingerprint not in told]
    told |= {f.fingerprint for f in fresh}
    if not fresh and source.findings:
        return
    yield f"## {style.prose(_title(source))}"
    yield words.plural(len(fresh), "finding") if fresh else "Nothing was found."
    for finding in fresh[:_MOST]:
        shown = Shown(finding, source.project, source.key, 0, 0)
        if finding.code:
            place = finding.code[0]
            at = f"{place.file}:{place.line}" if place.line else place.file
            yield f"### {style.span(at)}"
        yield from finding_text(shown, style, line_uri)
    if len(fresh) > _MOST:
        yield f"{len(fresh) - _MOST:,} more."


def _title(source: Source) -> str:
    kind, _, name = source.key.partition(":")
    if kind == "input":
        try:
            return name.removeprefix(str(source.project)).lstrip("/\\") or name
        except ValueError:
            return name
    return name
