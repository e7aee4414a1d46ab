"""Findings to protocol types: places, units, severities, and what must not be shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lsprotocol import types
from pygls.workspace import PositionCodec

from necropsy_parsers.records import Anchor

from necropsy.finding import Confidence, Cost, Finding, Fix, Place, Related, Severity
from necropsy.report import finding_to_json
from necropsy_lsp.convert import Look, diagnostic_of, range_of
from necropsy_lsp.placed import Shown
from necropsy_lsp.stored import StoredFinding

UTF16 = PositionCodec(types.PositionEncodingKind.Utf16)
LINES = ["", "    x = '🔥é'  ", "    y = f(", "        1,", "    )"]

Make = Callable[..., Finding]


def stored(finding: Finding) -> StoredFinding:
    """Through the published JSON, as a report file would bring it."""
    return msgspec.json.decode(json.dumps(finding_to_json(finding)), type=StoredFinding)


def convert(finding: Finding, stale: bool = False, **look: Any) -> types.Diagnostic:
    shown = Shown(stored(finding), Path("/p"), "stored:x", 2, 4, stale)
    return diagnostic_of(shown, LINES, Look(UTF16, **look))


def located(**known: str) -> Callable[[Path, str], str | None]:
    return lambda project, name: known.get(name)


@pytest.mark.parametrize(
    ("encoding", "end"),
    [
        (types.PositionEncodingKind.Utf8, 16),  # four bytes and two
        (types.PositionEncodingKind.Utf16, 13),  # a surrogate pair and one
        (types.PositionEncodingKind.Utf32, 12),
    ],
)
def test_range_counts_the_units_of_the_client(encoding: types.PositionEncodingKind, end: int) -> None:
    found = range_of(1, 1, LINES, PositionCodec(encoding))
    assert (found.start, found.end) == (types.Position(1, 4), types.Position(1, end))


def test_range_covers_the_statement() -> None:
    found = range_of(2, 4, LINES, UTF16)
    assert (found.start, found.end) == (types.Position(2, 4), types.Position(4, 5))


@pytest.mark.parametrize(
    ("severity", "level", "expected"),
    [
        (Severity.FATAL, None, types.DiagnosticSeverity.Error),
        (Severity.ERROR, None, types.DiagnosticSeverity.Error),
        (Severity.WARNING, None, types.DiagnosticSeverity.Warning),
        (Severity.NOTE, None, types.DiagnosticSeverity.Information),
        (Severity.FATAL, "hint", types.DiagnosticSeverity.Hint),
        (Severity.NOTE, "error", types.DiagnosticSeverity.Error),
    ],
)
def test_severities(
    make_finding: Make, severity: Severity, level: str | None, expected: types.DiagnosticSeverity
) -> None:
    assert convert(make_finding(severity=severity), level=lambda code: level).severity is expected
    assert convert(make_finding(severity=severity), True).severity is types.DiagnosticSeverity.Hint


def test_what_a_diagnostic_says(make_finding: Make) -> None:
    finding = make_finding(fixes=(Fix("Do this"), Fix("Or that")))
    diagnostic = convert(finding)
    said: dict[str, Any] = {name: getattr(diagnostic, name) for name in ("code", "source", "message", "data")}
    assert said == {
        "code": "SYN001",
        "source": "necropsy",
        "message": "Each step waits for the GPU.",
        "data": {"fingerprint": finding.fingerprint, "rule": "SYN001", "fixes": [0, 1], "stale": False},
    }
    assert (diagnostic.related_information, diagnostic.code_description, diagnostic.tags) == (None, None, None)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cost": Cost(12_400_000, 0.31, "measured")}, " [12.4 ms, 31 % of the time (measured)]"),
        ({"cost": Cost(basis="unknown")}, ""),
        ({"ranks": (0, 1, 2, 5), "confidence": Confidence.LIKELY}, " [ranks 0-2, 5; likely]"),
        ({"ranks": (3,)}, " [rank 3]"),
    ],
)
def test_a_message_holds_cost_ranks_and_doubts(make_finding: Make, changes: dict[str, Any], told: str) -> None:
    message = convert(make_finding(**changes)).message.replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert message == f"Each step waits for the GPU.{told}"


def test_a_stale_one_says_what_the_run_saw(make_finding: Make) -> None:
    message = convert(make_finding(text="x" * 500), True).message
    assert f"the run saw: {'x' * 120}…\n" in message
    assert message.endswith("Each step waits for the GPU.")


def test_page_and_tags_where_the_client_shows_them(make_finding: Make) -> None:
    finding = make_finding(fixes=(Fix("Remove the call", "code"),), name="deprecated-call")
    tags = frozenset({types.DiagnosticTag.Unnecessary, types.DiagnosticTag.Deprecated})
    diagnostic = convert(finding, page=lambda code: f"https://example.org/{code}", tags=tags)
    assert diagnostic.code_description == types.CodeDescription("https://example.org/SYN001")
    assert diagnostic.tags == [types.DiagnosticTag.Unnecessary, types.DiagnosticTag.Deprecated]
    assert convert(finding, tags=frozenset({types.DiagnosticTag.Deprecated})).tags == [types.DiagnosticTag.Deprecated]
    assert convert(finding, True, tags=tags).tags is None


def test_evidence_is_listed_where_its_file_is_known(make_finding: Make) -> None:
    related = (
        Related(Anchor("other.log", 0, 1, 7, "text"), "rank 3 waits"),
        Related(Anchor("gone.log", 0, 1, 1, ""), "lost"),
        Related(Anchor("other.log", 0, 1, 0, ""), ""),
        Related(Anchor("other.log", 0, 1, 1 << 60, ""), "far"),
    )
    finding = make_finding(related=related)
    places = (*finding.code, Place("/x/model.py", 9, text="y = f(x)"), Place("/x/gone.py", 9), Place("m.py", None))
    finding = make_finding(related=related, code=places)
    inputs = {"run.log": "file:///p/run.log", "other.log": "file:///p/other.log"}
    sources = {"/x/model.py": "file:///p/model.py", "m.py": "file:///p/m.py"}
    diagnostic = convert(finding, inputs=located(**inputs), sources=lambda _, place: sources.get(place.file))
    listed = [(r.location.uri, r.location.range.start.line, r.message) for r in diagnostic.related_information or ()]
    assert listed == [
        ("file:///p/model.py", 8, "y = f(x)"),
        ("file:///p/run.log", 1, "RuntimeError: boom"),
        ("file:///p/other.log", 6, "rank 3 waits"),
        ("file:///p/other.log", 0, "line 0"),
        ("file:///p/other.log", (1 << 31) - 1, "far"),
    ]
