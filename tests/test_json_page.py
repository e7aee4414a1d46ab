"""`docs/json.md` names exactly the fields that a report has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor

from necropsy.finding import Finding, Fix, Place, Related, Severity
from necropsy.report import InputRow, KernelSummary, LineTime, NotEvaluated, Report, Run, StepSummary

PAGE = Path(__file__).resolve().parents[1] / "docs" / "json.md"


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    anchor = Anchor("run.log", 0, 1, 1, "x")
    finding = Finding(
        message="m",
        anchor=anchor,
        severity=Severity.ERROR,
        code=(Place("train.py", 1),),
        related=(Related(anchor, "label"),),
        fixes=(Fix("title"),),
    )
    issues = Issues()
    issues.add("source/empty", "run.log")
    whole = Report("0", [InputRow("run.log", "log", "r", 1, 1)], [finding], [NotEvaluated("OOM005", "m", "s")])
    whole.issues, whole.runs = issues.rows(), [Run("attempt 0")]
    lines = (LineTime("train.py", 3, "step", "x = f(x)", 1),)
    whole.steps = [StepSummary("trace.json", 0, "GPU", 1, "annotation", 0, 0, 1, {"compute": 1}, lines=lines)]
    whole.kernels = [KernelSummary("r.ncu-rep", "k", 1, 1, 1.0, "train.py", 1, "f", "latency", {"compute": 1.0})]
    return whole.to_json()


def documented(heading: str) -> set[str]:
    """The field names in the first column of the table below a heading."""
    section = re.split(r"^#+ ", PAGE.read_text(encoding="utf-8").split(f"# {heading}\n", 1)[1], flags=re.MULTILINE)[0]
    first_cells = re.findall(r"^\| (`.*?) \|", section, flags=re.MULTILINE)
    return {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}


def test_it_is_plain_data(report: dict[str, Any]) -> None:
    assert json.loads(json.dumps(report))["steps"][0]["lines"][0]["line"] == 3


def test_the_report(report: dict[str, Any]) -> None:
    assert documented("The JSON report") == set(report)


@pytest.mark.parametrize("part", ["inputs", "findings", "not_evaluated", "issues", "runs", "steps", "kernels"])
def test_its_lists(report: dict[str, Any], part: str) -> None:
    assert documented(f"`{part}[]`") == set(report[part][0])


@pytest.mark.parametrize("part", ["code", "fixes"])
def test_lists_of_a_finding(report: dict[str, Any], part: str) -> None:
    assert documented(f"`findings[].{part}[]`") == set(report["findings"][0][part][0])


def test_anchors(report: dict[str, Any]) -> None:
    (finding,) = report["findings"]
    assert documented("Anchors") == set(finding["related"][0])
    assert set(finding["anchor"]) == documented("Anchors") - {"label"}
