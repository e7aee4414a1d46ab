"""Findings to protocol types: places, units, severities, and what must not be shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from lsprotocol import types
from pygls.workspace import PositionCodec

from necropsy_parsers.records import Anchor

from necropsy.finding import Finding, Related, Severity
from necropsy.report import finding_to_json
from necropsy_lsp.convert import diagnostic_of, is_current, range_of, split_lines
from necropsy_lsp.stored import Place, StoredFinding

UTF16 = PositionCodec(types.PositionEncodingKind.Utf16)
LINES = ["", "    x = '🔥é'  ", "    y = f(", "        1,", "    )"]

Make = Callable[..., Finding]


def stored(finding: Finding) -> StoredFinding:
    """Through the published JSON, as a report file would bring it."""
    return msgspec.json.decode(json.dumps(finding_to_json(finding)), type=StoredFinding)


def convert(finding: Finding, lines: list[str], **inputs: str) -> types.Diagnostic | None:
    return diagnostic_of(stored(finding), lines, UTF16, inputs.get)


@pytest.mark.parametrize(
    ("encoding", "end"),
    [
        (types.PositionEncodingKind.Utf8, 16),  # four bytes and two
        (types.PositionEncodingKind.Utf16, 13),  # a surrogate pair and one
        (types.PositionEncodingKind.Utf32, 12),
    ],
)
def test_range_counts_the_units_of_the_client(encoding: types.PositionEncodingKind, end: int) -> None:
    found = range_of(Place("t.py", 2), LINES, PositionCodec(encoding))
    assert (found.start, found.end) == (types.Position(1, 4), types.Position(1, end))


@pytest.mark.parametrize(("end_line", "last"), [(5, 4), (None, 2), (6, 2), (10**12, 2), (2, 2), (-1, 2)])
def test_range_covers_the_statement_only_inside_the_document(end_line: int | None, last: int) -> None:
    found = range_of(Place("t.py", 3, end_line), LINES, UTF16)
    assert (found.start.line, found.end.line) == (2, last)
    assert found.end.character == len(LINES[last].rstrip())


@pytest.mark.parametrize(
    ("line", "text", "current"),
    [
        (2, "x = '🔥é'", True),
        (2, "  x = '🔥é'\t", True),
        (3, "x = '🔥é'", False),  # the text moved: this line is another one
        (2, "x = '🔥e'", False),
        (2, "", False),  # the log quoted nothing to compare with
        (1, "", False),
        (None, "x = '🔥é'", False),
        (0, ")", False),  # no wrap-around to the last line
        (99, "x = '🔥é'", False),
        (3, "y = f(\n    1,\n)", True),
        (3, "y = f(\n    2,\n)", False),
        (5, ")\nz", False),
    ],
)
def test_a_place_is_current_where_its_text_still_stands(line: int | None, text: str, current: bool) -> None:
    assert is_current(Place("t.py", line, text=text), LINES) is current


def test_lines_end_where_python_and_the_protocol_end_them() -> None:
    assert split_lines("a\r\nb\rc\x0cd\u2028e\n") == ["a", "b", "c\x0cd\u2028e", ""]


@pytest.mark.parametrize(
    ("severity", "expected"),
    [
        (Severity.FATAL, types.DiagnosticSeverity.Error),
        (Severity.ERROR, types.DiagnosticSeverity.Error),
        (Severity.WARNING, types.DiagnosticSeverity.Warning),
        (Severity.NOTE, types.DiagnosticSeverity.Information),
    ],
)
def test_severities(make_finding: Make, severity: Severity, expected: types.DiagnosticSeverity) -> None:
    diagnostic = convert(make_finding(line=3, text="y = f(", severity=severity), LINES)
    assert diagnostic is not None
    assert diagnostic.severity is expected


def test_what_a_diagnostic_says(make_finding: Make) -> None:
    finding = make_finding(line=3, text="y = f(")
    diagnostic = convert(finding, LINES)
    assert diagnostic is not None
    said: dict[str, Any] = {name: getattr(diagnostic, name) for name in ("code", "source", "message", "data")}
    assert said == {
        "code": "SYN001",
        "source": "necropsy",
        "message": "Each step waits for the GPU.",
        "data": finding.fingerprint,
    }
    assert diagnostic.related_information is None


def test_evidence_is_listed_where_its_file_is_known(make_finding: Make) -> None:
    related = (
        Related(Anchor("other.log", 0, 1, 7, "text"), "rank 3 waits"),
        Related(Anchor("gone.log", 0, 1, 1, ""), "lost"),
    )
    finding = make_finding(line=3, text="y = f(", related=related)
    diagnostic = convert(finding, LINES, **{"run.log": "file:///p/run.log", "other.log": "file:///p/other.log"})
    assert diagnostic is not None
    listed = [(r.location.uri, r.location.range.start.line, r.message) for r in diagnostic.related_information or ()]
    assert listed == [("file:///p/run.log", 1, "RuntimeError: boom"), ("file:///p/other.log", 6, "rank 3 waits")]


def test_no_diagnostic_without_a_place_or_on_a_changed_line(make_finding: Make) -> None:
    assert convert(make_finding(code=()), LINES) is None
    assert convert(make_finding(line=3, text="y = g("), LINES) is None
