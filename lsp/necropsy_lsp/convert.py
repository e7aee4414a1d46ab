"""Findings to protocol types: pure functions, and the only place that counts UTF-16 units.

A diagnostic is made only where the document still holds the text that the input
quoted: a line that changed since the run gets none, rather than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from lsprotocol import types
from pygls.workspace import PositionCodec

from necropsy_lsp.stored import Anchor, Place, StoredFinding

SOURCE: Final = "necropsy"
SEVERITIES: Final = {
    "fatal": types.DiagnosticSeverity.Error,
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
_LINE_END = re.compile(r"\r\n|\r|\n")

Locate = Callable[[str], str | None]  # name of an input -> URI of a file that exists


def split_lines(text: str) -> list[str]:
    """Lines as the protocol and Python count them: `str.splitlines` also breaks at form feeds."""
    return _LINE_END.split(text)


def is_current(place: Place, lines: Sequence[str]) -> bool:
    """Whether the document holds the quoted text at the place's line; without a quote nothing is."""
    quoted = [line.strip() for line in split_lines(place.text.strip())]
    if place.line is None or place.line < 1 or not quoted[0]:
        return False
    start = place.line - 1
    return [line.strip() for line in lines[start : start + len(quoted)]] == quoted


def range_of(place: Place, lines: Sequence[str], codec: PositionCodec) -> types.Range:
    """From the first character of the place's line to the last one of its statement.

    Characters are in the client's units. `place.line` must be a line of the document;
    an `end_line` outside it, or before the line, is not believed.
    """
    first = (place.line or 1) - 1
    last = (place.end_line or 0) - 1
    if not first < last < len(lines):
        last = first
    head, tail = lines[first], lines[last].rstrip()
    indent = head[: len(head) - len(head.lstrip())]
    return types.Range(
        start=types.Position(line=first, character=codec.client_num_units(indent)),
        end=types.Position(line=last, character=codec.client_num_units(tail)),
    )


def related_of(anchor: Anchor, uri: str) -> types.DiagnosticRelatedInformation:
    """A line of an input as further evidence; shows its label, else what it quotes."""
    position = types.Position(line=max(anchor.line - 1, 0), character=0)
    return types.DiagnosticRelatedInformation(
        location=types.Location(uri=uri, range=types.Range(start=position, end=position)),
        message=anchor.label or anchor.text or f"line {anchor.line}",
    )


def diagnostic_of(
    finding: StoredFinding, lines: Sequence[str], codec: PositionCodec, locate: Locate
) -> types.Diagnostic | None:
    """The finding on its first place, or None when the document's line no longer matches.

    The caller has made sure that `code[0].file` is this document. The anchor and the
    related anchors are listed where `locate` knows their file.
    """
    if not finding.code or not is_current(finding.code[0], lines):
        return None
    evidence = [(anchor, locate(anchor.input)) for anchor in (finding.anchor, *finding.related)]
    return types.Diagnostic(
        range=range_of(finding.code[0], lines, codec),
        message=finding.message,
        severity=SEVERITIES[finding.severity],
        code=finding.rule,
        source=SOURCE,
        related_information=[related_of(anchor, uri) for anchor, uri in evidence if uri is not None] or None,
        data=finding.fingerprint,
    )
