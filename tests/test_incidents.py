"""Whole jobs, failed and healthy, with all the noise around them: what a reader must be told first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.cases import Case, complaints, incident_cases, loud

from necropsy.api import analyze

CASES = incident_cases()
by_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.folder.name)


def test_there_are_failed_and_healthy_ones() -> None:
    assert any(c.fires for c in CASES)
    assert any(c.folder.name.startswith("healthy") for c in CASES)


@by_case
def test_incident(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert complaints(case, case.report(tmp_path)) == []


@by_case
def test_an_incident_is_whole(case: Case) -> None:
    assert case.inputs
    assert {"rule", "worst", "other", "never"} & set(case.expect)
    assert (case.folder / "origin.md").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("case", [c for c in CASES if c.folder.name.startswith("healthy")], ids=lambda c: c.folder.name)
def test_a_healthy_job_gives_nothing_above_a_note(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert loud(case.report(tmp_path)) == []


@by_case
def test_an_incident_reads_the_same_without_its_sources(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sources sharpen a place; they never change which rules speak, nor how loudly."""
    monkeypatch.chdir(tmp_path)
    with_sources = case.report(tmp_path)
    (tmp_path / "bare").mkdir()
    without = analyze(case.copied_to(tmp_path / "bare", sources=False))
    assert [(f.rule, f.severity, f.role) for f in without.findings] == [
        (f.rule, f.severity, f.role) for f in with_sources.findings
    ]


@by_case
def test_reading_twice_says_the_same(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = case.copied_to(tmp_path)
    assert json.dumps(analyze(paths).to_json()) == json.dumps(analyze(paths).to_json())
