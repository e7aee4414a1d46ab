"""Captures of real GPU jobs tell the mistakes planted in them, and the page's tables say what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.captures import INCIDENTS, PAGE, captures, judge, mistakes_table, overhead_table, tables, with_tables

from necropsy.api import analyze
from necropsy.finding import Role


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return tables(tmp_path_factory.mktemp("captures"))


def test_the_pages_tables_are_those_of_the_captures(made: dict[str, str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page, made) == page, "run python -m tests.support.captures"
    assert "not told" not in made["mistakes"]


@pytest.mark.parametrize("name", sorted(captures()))
def test_planted_mistakes_are_told_as_exactly_as_can_be(name: str, tmp_path: Path) -> None:
    judged = judge(name, captures()[name], tmp_path)
    assert [t for t in judged.told if not t.met] == []
    assert len(judged.innocent) <= 2


def test_every_capture_is_judged() -> None:
    assert {p.name for p in INCIDENTS.glob("captured-*")} == set(captures())


def test_a_mistake_that_is_not_told_is_said_to_be_missing(tmp_path: Path) -> None:
    name = "captured-device-mix"
    spec = {**captures()[name], "plants": [{"tag": "cpu input", "rules": "OOM005", "within": "line"}]}
    judged = judge(name, spec, tmp_path)
    assert not judged.told[0].met
    assert "| not told |" in mistakes_table({name: judged})


def test_overhead_is_told_against_runs_without_capture() -> None:
    table = overhead_table({"step_ms": {"none": [10.0, 30.0, 20.0], "profiler": [25.0]}})
    assert "| profiler | 25.0 ms | +25% | 25.0 |" in table


def test_a_limit_that_the_log_tells_is_no_second_cause_in_the_trace() -> None:
    """Marks tell no function: the log's warning and the trace's compilation are joined by their compile id."""
    report = analyze([str(INCIDENTS / "captured-image-classifier")])
    roles = {f.rule: f.role for f in report.findings if f.rule in ("CMP008", "CMP021")}
    assert roles == {"CMP008": Role.ROOT, "CMP021": Role.SYMPTOM}
