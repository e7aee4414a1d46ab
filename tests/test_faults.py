"""A rule that fails costs its own findings, not the report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from necropsy import api
from necropsy.evidence.exceptions import Exceptions
from necropsy.finding import Finding
from necropsy.rule import all_rules

LOG = 'Traceback (most recent call last):\n  File "/home/trainer/a.py", line 3, in f\nRuntimeError: no\n'


def failing(exceptions: Exceptions) -> Iterator[Finding]:
    raise ZeroDivisionError("in a rule")
    yield from ()


def test_the_others_still_speak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [replace(r, run=failing) if r.code == "CRS010" else r for r in all_rules()]
    monkeypatch.setattr(api, "all_rules", lambda: tuple(rules))
    (tmp_path / "run.log").write_text(LOG)
    with pytest.raises(ZeroDivisionError):
        api.analyze(str(tmp_path / "run.log"))
    monkeypatch.delenv("NECROPSY_STRICT")
    report = api.analyze(str(tmp_path / "run.log"))
    assert [f.rule for f in report.findings] == ["CRS006"]
    assert [(n.rule, n.missing) for n in report.not_evaluated if n.rule == "CRS010"] == [
        ("CRS010", "a fault in the rule (ZeroDivisionError: in a rule)")
    ]
