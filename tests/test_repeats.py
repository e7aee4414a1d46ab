"""Many alike messages in one log, and errors that nothing reads: counted, never lost."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from necropsy.api import analyze
from necropsy.finding import Severity
from necropsy.render import View, renderers

TRACE: Final = """\
Traceback (most recent call last):
  File "/home/trainer/projects/ocr/loop.py", line 61, in run
    page = decode(raw)
ValueError: page {n} has no text layer
"""
STEPS: Final = "".join(f"step {n} loss 1.0\n" for n in range(5))


def write(folder: Path, text: str) -> str:
    path = folder / "run.log"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("times", [3, 150, 500])
def test_the_last_of_many_alike_exceptions_can_be_the_fatal_one(tmp_path: Path, times: int) -> None:
    text = "".join(TRACE.format(n=n) + STEPS for n in range(times)) + TRACE.format(n=times)
    first = analyze([write(tmp_path, text)]).findings[0]
    assert (first.severity, first.count) == (Severity.FATAL, 1)
    assert first.anchor.line == text.count("\n")


@pytest.mark.parametrize("times", [3, 150, 500])
def test_many_alike_exceptions_that_were_survived_are_notes(tmp_path: Path, times: int) -> None:
    text = "".join(TRACE.format(n=n) + STEPS for n in range(times))
    assert {f.severity for f in analyze([write(tmp_path, text)]).findings} == {Severity.NOTE}


@pytest.mark.parametrize(
    "line",
    [
        "[04/12/2022-09:30:51] [E] Engine could not be created from network",
        "2026-03-04 12:00:00,100 - serve - ERROR - shard 4 refused",
        "[ERROR] 3 shards were refused",
    ],
)
def test_errors_that_no_rule_knows_are_no_all_clear(tmp_path: Path, line: str) -> None:
    report = analyze([write(tmp_path, f"starting\n{line}\n{line}\nbye\n")])
    assert report.findings == []
    for form in ("text", "md"):
        assert "2 lines marked as errors that no rule knows" in " ".join(
            renderers()[form].render(report, View(width=200)).split()
        )


def test_a_log_without_errors_says_nothing_of_them(tmp_path: Path) -> None:
    report = analyze([write(tmp_path, "starting\nINFO: 0 errors\nbye\n")])
    assert "all-clear" not in renderers()["text"].render(report, View(width=200))
