"""Real traces with planted mistakes: what was planted is told, in its function, and nothing else is accused."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from necropsy.api import analyze
from necropsy.finding import Finding, Severity

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "traces"
TRUTH: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "truth.toml").read_text(encoding="utf-8"))


def named(finding: Finding) -> str:
    """Rule and function: `MEM003 stage_batch`."""
    return f"{finding.rule} {finding.code[0].function if finding.code else ''}".strip()


@pytest.mark.parametrize("name", TRUTH)
def test_what_was_planted_is_told_and_nothing_else(name: str) -> None:
    truth = TRUTH[name]
    report = analyze([str(FOLDER / name)])
    assert report.issues == []
    told = {named(f) for f in report.findings}
    loud = [f for f in report.findings if f.severity > Severity.NOTE]
    must, notes = truth.get("must", []), truth.get("notes", [])
    assert set(must) <= {named(f) for f in loud}
    assert all(any(t == n or t.startswith(f"{n} ") for t in told) for n in notes), told
    allowed = {m.split()[0] for m in must} | set(truth.get("may", []))
    assert {f.rule for f in loud} <= allowed


@pytest.mark.parametrize("name", TRUTH)
def test_costs_do_not_exceed_what_was_lost(name: str) -> None:
    """Costs outside computing are parts of one partition: together they cannot be more than what it lost."""
    report = analyze([str(FOLDER / name)])
    for row in report.steps:
        # FUS, KRN, MEM012 and MEM013 are about computing; DST007 about the time of the ranks that wait.
        elsewhere = ("FUS", "KRN", "MEM01", "DST007")
        costs = [
            f.cost.ns or 0
            for f in report.findings
            if f.anchor.input == row.input and f.cost.basis == "measured" and not f.rule.startswith(elsewhere)
        ]
        assert sum(costs) <= row.lost_ns * 1.001, [(f.rule, f.cost) for f in report.findings]


def test_every_trace_has_its_truth() -> None:
    assert set(TRUTH) == {
        p.name
        for p in FOLDER.iterdir()
        if p.name.endswith((".json.gz", ".json.xz")) or (p.is_dir() and p.name != "src")
    }
