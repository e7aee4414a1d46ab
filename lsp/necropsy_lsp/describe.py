"""A finding to the text that a hover shows: what, evidence, cost, facts, fixes, and the page of its rule.

Texts of an input or a report are escaped, fenced or in code spans, so that none of them
can add links, pictures or headings to what the editor renders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from necropsy.finding import Cost, Place
from necropsy.render import markdown
from necropsy.render.parts import words
from necropsy.render.parts.printable import lines, printable
from necropsy_lsp.placed import Shown
from necropsy_lsp.rule_text import rule_text
from necropsy_lsp.stored import Anchor, Fact, StoredFinding

IN_FULL: Final = 3  # findings of one line that are told in full
QUOTE: Final = 600  # characters of a quoted line
ROWS: Final = 12  # lines of a quoted text, entries of a list
RELATED: Final = 6

Link = Callable[[Path, Anchor], str | None]  # a project's input and line -> URI that opens it


class Style:
    """Texts as they are, for clients that render nothing; each method takes hostile text."""

    def bold(self, text: str) -> str:
        """Text that stands out."""
        return printable(text)

    def prose(self, text: str) -> str:
        """Running text; `code spans` in it stay."""
        return printable(text)

    def span(self, text: str) -> str:
        """Text of a program or a log, in running text."""
        return printable(text)

    def fence(self, rows: Sequence[str], language: str = "text") -> str:
        """Lines of a program or a log."""
        return "\n".join(f"    {printable(row)}" for row in rows)

    def link(self, text: str, uri: str) -> str:
        """A text that leads to a URI of this server's making."""
        return printable(text)


class Markdown(Style):
    """For clients that render Markdown."""

    def bold(self, text: str) -> str:
        """See `Style`."""
        return f"**{markdown.prose(text)}**"

    def prose(self, text: str) -> str:
        """See `Style`."""
        return markdown.prose(text)

    def span(self, text: str) -> str:
        """See `Style`."""
        return markdown.span(text)

    def fence(self, rows: Sequence[str], language: str = "text") -> str:
        """See `Style`."""
        return markdown.fence([printable(row) for row in rows], language)

    def link(self, text: str, uri: str) -> str:
        """See `Style`."""
        return f"[{markdown.prose(text)}](<{uri}>)"


def hover_text(found: Sequence[Shown], style: Style, link: Link) -> str:
    """All findings of one line, then the pages of their rules."""
    blocks: list[str] = []
    for shown in found[:IN_FULL]:
        blocks += finding_text(shown, style, link)
    if rest := found[IN_FULL:]:
        listed = rest[:ROWS]
        more = [f"- {len(rest) - len(listed)} more"] if len(rest) > len(listed) else []
        blocks.append("\n".join([f"- {style.prose(headline(s.finding))}" for s in listed] + more))
    for code in dict.fromkeys(shown.finding.rule for shown in found[:IN_FULL]):
        if (page := rule_text(code)) is not None:
            blocks += ["---", f"{style.bold(code)} {style.prose(page.summary)}", page.body]
    return "\n\n".join(blocks)


def headline(finding: StoredFinding) -> str:
    """One line: rule and message."""
    return f"{finding.rule}: {finding.message}"


def finding_text(shown: Shown, style: Style, link: Link) -> Iterator[str]:
    """One finding in full, as blocks of text."""
    finding = shown.finding
    sure = f", {finding.confidence}" if finding.confidence != "certain" else ""
    title = f"{finding.severity.upper()} {finding.rule}"
    yield f"{style.bold(title)} {style.prose(f'{finding.name}{sure}')}".rstrip()
    yield style.prose(finding.message)
    if shown.stale:
        yield f"{style.bold('This line has changed since the run.')} The run saw:"
        yield style.fence(_cut(shown.place.text), "python")
    if shown.place_index:
        claim = finding.code[0]
        yield f"The claim itself is at {style.span(words.place(Place(claim.file, claim.line, None, claim.function)))}."
    if rows := list(_particulars(shown, style)):
        yield "\n".join(f"- {row}" for row in rows)
    yield from _evidence(shown, style, link)
    for number, fix in enumerate(finding.fixes[:ROWS], 1):
        yield f"{style.bold(f'Fix {number}:')} {style.prose(fix.title)}"
        if fix.command.strip():
            yield style.fence(_cut(fix.command), "sh" if fix.kind in ("command", "env", "flag") else "python")


def _particulars(shown: Shown, style: Style) -> Iterator[str]:
    finding = shown.finding
    if price := cost(finding):
        yield f"cost: {style.prose(price)}"
    for name, value in list(finding.facts.items())[: 2 * ROWS]:
        if isinstance(value, list) and len(value) > 1 and any(isinstance(v, str) and " " in v for v in value):
            listed = [f"  - {style.span(str(v)[:QUOTE])}" for v in value[:ROWS]]
            yield "\n".join([f"{style.prose(name.replace('_', ' '))}:", *listed])
        elif value is not None:
            yield style.prose(fact(name, value)[:QUOTE])
    if finding.ranks:
        yield words.ranks(finding.ranks)[:QUOTE]
    if finding.count > 1:
        yield f"seen {finding.count:,} times"
    if finding.code and (doubt := words.EXACTNESS.get(shown.place.exactness)):
        yield doubt


def cost(finding: StoredFinding) -> str:
    """What it cost, in words; empty where that is not known."""
    price = finding.cost
    try:
        return words.cost(Cost(price.ns, price.share, price.basis))
    except (OverflowError, ValueError):  # a number that no run can have measured
        return ""


def fact(name: str, value: Fact) -> str:
    """One fact in words, such as `requested 1.00 GiB`."""
    if isinstance(value, list):
        value = [v for v in value if v is not None]
    try:
        return words.fact(name, value)  # type: ignore[arg-type]
    except (OverflowError, ValueError, TypeError):
        return f"{name.replace('_', ' ')} ?"


def _evidence(shown: Shown, style: Style, link: Link) -> Iterator[str]:
    finding = shown.finding
    if finding.anchor.input:
        yield f"Evidence: {_anchor(finding.anchor, shown, style, link)}"
        if quote := finding.anchor.text.strip():
            yield style.fence(_cut(quote))
    related = [
        f"- {_anchor(a, shown, style, link)} {style.prose((a.label or a.text.strip())[:QUOTE])}"
        for a in finding.related[:RELATED]
    ]
    if related:
        yield "\n".join(related)


def _anchor(anchor: Anchor, shown: Shown, style: Style, link: Link) -> str:
    text, uri = f"{anchor.input}:{anchor.line}", link(shown.project, anchor)
    return style.link(text, uri) if uri is not None else style.span(text)


def _cut(text: str) -> list[str]:
    rows = [row if len(row) <= QUOTE else f"{row[:QUOTE]}…" for row in lines(text)]
    return rows if len(rows) <= ROWS else [*rows[:ROWS], "…"]
