"""Findings to protocol types: pure functions, and with `text` the only place that counts the client's units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from lsprotocol import types
from msgspec import Struct
from pygls.workspace import PositionCodec

from necropsy.finding import Cost
from necropsy.render.parts.words import EXACTNESS, cost, spans
from necropsy_lsp.placed import Shown
from necropsy_lsp.stored import Anchor, Place, StoredFinding
from necropsy_lsp.text import split_lines, width

SOURCE: Final = "necropsy"
SEVERITIES: Final = {
    "fatal": types.DiagnosticSeverity.Error,
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
LEVELS: Final = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
    "hint": types.DiagnosticSeverity.Hint,
}
_QUOTED: Final = 120  # characters of what the run saw
_RELATED: Final = 50  # links of one finding: it may have thousands of ranks
_FAR: Final = (1 << 31) - 1  # the protocol's largest line

Locate = Callable[[Path, str], str | None]  # project, name in a report -> URI of a file that exists
Placing = Callable[[Path, Place], str | None]  # project, place in a report -> URI of the file that is meant


def nowhere(project: Path, name: str | Place) -> None:
    """Locates nothing."""


class Look(Struct, frozen=True):
    """What the client can show, and where things are.

    `inputs` and `sources` locate evidence and code for related information; `page` gives
    the address of a rule's page; `level` the severity that settings give to a rule.
    """

    codec: PositionCodec
    inputs: Locate = nowhere
    sources: Placing = nowhere
    page: Callable[[str], str | None] = lambda code: None
    level: Callable[[str], str | None] = lambda code: None
    tags: frozenset[types.DiagnosticTag] = frozenset()


def range_of(first: int, last: int, lines: Sequence[str], codec: PositionCodec) -> types.Range:
    """From the first character of line `first` to the last one of line `last`, in the client's units."""
    head, tail = lines[first], lines[last].rstrip()
    indent = head[: len(head) - len(head.lstrip())]
    return types.Range(
        start=types.Position(line=first, character=width(indent, codec)),
        end=types.Position(line=last, character=width(tail, codec)),
    )


def diagnostic_of(
    shown: Shown, lines: Sequence[str], look: Look, related: list[types.DiagnosticRelatedInformation] | None = None
) -> types.Diagnostic:
    """The finding where it stands now, in the document whose lines are given.

    `related` is its related information where that is known already: it does not move.
    """
    finding = shown.finding
    page = look.page(finding.rule)
    severity = LEVELS.get(look.level(finding.rule) or "", SEVERITIES[finding.severity])
    return types.Diagnostic(
        range=range_of(shown.line, shown.end_line, lines, look.codec),
        message=message_of(shown),
        severity=types.DiagnosticSeverity.Hint if shown.stale else severity,
        code=finding.rule,
        code_description=types.CodeDescription(page) if page else None,
        source=SOURCE,
        tags=[tag for tag in tags_of(finding) if tag in look.tags and not shown.stale] or None,
        related_information=(related_of(shown, look) if related is None else related) or None,
        data={
            "fingerprint": finding.fingerprint,
            "rule": finding.rule,
            "fixes": list(range(len(finding.fixes))),
            "stale": shown.stale,
        },
    )


def message_of(shown: Shown) -> str:
    """The finding's sentence with its cost, ranks and doubts; of a stale one, what the run saw first."""
    finding = shown.finding
    price = finding.cost
    remarks = [cost(Cost(price.ns, price.share, price.basis))]
    if finding.ranks:
        remarks.append(f"{'rank' if len(finding.ranks) == 1 else 'ranks'} {spans(finding.ranks)}")
    remarks.append(finding.confidence if finding.confidence != "certain" else "")
    remarks.append(EXACTNESS.get(shown.place.exactness, ""))
    told = "; ".join(remark for remark in remarks if remark)
    message = f"{finding.message} [{told}]" if told else finding.message
    if not shown.stale:
        return message
    saw = split_lines(shown.place.text.strip())[0] or f"`{shown.place.function}` here"
    saw = saw if len(saw) <= _QUOTED else f"{saw[:_QUOTED]}…"
    return f"This line has changed since the run, so this may no longer hold; the run saw: {saw}\n{message}"


def tags_of(finding: StoredFinding) -> list[types.DiagnosticTag]:
    """`Unnecessary` where the fix is to take the line out, `Deprecated` where the rule is about that."""
    tags: list[types.DiagnosticTag] = []
    if finding.fixes and finding.fixes[0].kind == "code" and finding.fixes[0].title.startswith(("Remove ", "Delete ")):
        tags.append(types.DiagnosticTag.Unnecessary)
    if "deprecated" in finding.name:
        tags.append(types.DiagnosticTag.Deprecated)
    return tags


def related_of(shown: Shown, look: Look) -> list[types.DiagnosticRelatedInformation]:
    """The finding's further places, its anchor and its other evidence, where those are files here."""
    found: list[types.DiagnosticRelatedInformation] = []
    for index, place in enumerate(shown.finding.code):
        if index != shown.place_index and place.line is not None and (uri := look.sources(shown.project, place)):
            found.append(_information(uri, place.line, _named(place)))
    for anchor in (shown.finding.anchor, *shown.finding.related):
        if len(found) < _RELATED and (uri := look.inputs(shown.project, anchor.input)):
            found.append(_information(uri, anchor.line, _said(anchor)))
    return found


def _information(uri: str, line: int, message: str) -> types.DiagnosticRelatedInformation:
    position = types.Position(line=min(max(line - 1, 0), _FAR), character=0)
    return types.DiagnosticRelatedInformation(types.Location(uri, types.Range(position, position)), message)


def _named(place: Place) -> str:
    quote = split_lines(place.text.strip())[0]
    return quote or (f"in `{place.function}`" if place.function else f"line {place.line}")


def _said(anchor: Anchor) -> str:
    return anchor.label or anchor.text or f"line {anchor.line}"
