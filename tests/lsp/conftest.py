"""A project folder with a stored report, made by the engine's own report type."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from necropsy_parsers.records import Anchor

from necropsy.finding import Finding, Place, Severity
from necropsy.report import Report

SOURCE = """\
import torch

def train(loader):
    for batch in loader:
        loss = step(batch); log("🔥", loss.item())
        total = total + loss
"""


@pytest.fixture
def make_finding() -> Callable[..., Finding]:
    """Builds a finding on line 5 of `SOURCE`; `file`, `line`, `text` and `end_line` change its place."""

    def make(**changes: Any) -> Finding:
        text = 'loss = step(batch); log("🔥", loss.item())'
        place: dict[str, Any] = {
            "file": "/home/trainer/projects/vision/train.py",
            "line": 5,
            "function": "train",
            "text": text,
        }
        place |= {name: changes.pop(name) for name in ("file", "line", "text", "end_line") if name in changes}
        finding: dict[str, Any] = {
            "message": "Each step waits for the GPU.",
            "anchor": Anchor("run.log", 6, 25, 2, "RuntimeError: boom"),
            "severity": Severity.ERROR,
            "rule": "SYN001",
            "name": "item-in-loop",
            "code": (Place(**place),),
        }
        return Finding(**finding | changes)

    return make


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A workspace folder with `vision/train.py` and the log that findings quote."""
    folder = tmp_path / "my project"
    (folder / "vision").mkdir(parents=True)
    (folder / "vision" / "train.py").write_text(SOURCE, encoding="utf-8")
    (folder / "run.log").write_text("first\nRuntimeError: boom\n", encoding="utf-8")
    return folder


@pytest.fixture
def store(project: Path) -> Callable[..., Path]:
    """`store(*findings, name=...)` writes a report under the project's `.necropsy/`."""

    def write(*findings: Finding, name: str = "report.json") -> Path:
        path = project / ".necropsy" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(Report("0", findings=list(findings)).to_json()), encoding="utf-8")
        return path

    return write
