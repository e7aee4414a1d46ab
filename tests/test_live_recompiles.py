"""Recompilations of the installed torch, made for real: each cause at its planted line, and nothing else accused.

One process compiles a handful of small functions with backend="eager"; the comment behind a line names the rule that
must claim it, the severity, and a pattern of what must be said.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest
from tests.support.cases import brief, words

from necropsy.api import analyze
from necropsy.finding import Finding, Severity
from necropsy.report import Report

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("live-compile")

SCRIPT: Final = dedent(
    """
    import torch
    from torch import nn

    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(4, 4)
            self.calls = 0

        def forward(self, x):
            y = self.out(x)
            self.calls += 1  # CMP009 warning: self.calls.*0 -> 1 -> 2.*allow_unspec_int_on_nn_module
            return y * self.calls

    class Pieces(nn.Module):
        def forward(self, rows):  # CMP007 warning: dimension 0 of .rows.*48 -> 41.*drop_last
            y = rows.relu()
            torch._dynamo.graph_break()
            y = y + 1
            torch._dynamo.graph_break()
            y = y * 2
            torch._dynamo.graph_break()
            return y.sum()

    def cooled(x, temperature):
        y = x.sin()
        return y / temperature  # CMP007 warning: float .temperature.*0.9 -> 0.8.*torch.tensor

    def pooled(frames):  # CMP007 warning: dimension 1 of .frames.*12 -> 9 -> 15.*mark_dynamic
        return frames.mean(1)

    def merged(parts):
        total = parts[0] + 1  # CMP007 warning: length of .parts.*1 -> 2 -> 3
        for part in parts[1:]:
            total = total + part
        return total

    def rounded(values):  # CMP007 warning: dtype of .values.*Float -> Half -> Double
        return values.exp()

    def helper(x, offset):
        return x + offset  # CMP008 error: recompile_limit .8..*integer .offset.*runs eagerly

    def shifted(x, offset):
        return helper(x.cos(), offset)

    def wide(pixels):  # CMP008 error: recompile_limit .8..*dimension 0 of .pixels
        return pixels.sqrt()

    def healthy(grid):
        return grid.tanh()

    def run(f, *calls, **options):
        compiled = torch.compile(f, backend="eager", **options)
        for arguments in calls:
            compiled(*arguments)

    x = torch.ones(4, 4)
    run(Counted(), *[(x,)] * 4)
    run(Pieces(), *[(torch.ones(n, 4),) for n in (48, 48, 41)])
    run(cooled, *[(x, 0.9 - 0.1 * step) for step in range(4)], dynamic=False)
    run(pooled, *[(torch.ones(4, n),) for n in (12, 9, 15, 11)], dynamic=False)
    run(merged, *[([x.clone() for _ in range(n)],) for n in (1, 2, 3, 4)])
    run(rounded, (x,), (x.half(),), (x.double(),))
    run(shifted, *[(x, 5 + step) for step in range(10)], dynamic=False)
    run(wide, *[(torch.ones(20 + n),) for n in range(10)], dynamic=False)
    run(healthy, *[(torch.ones(n, 3),) for n in (70, 80, 90, 100)])
    """
)
PLANT: Final = re.compile(r"#\s(?P<rule>CMP\d{3}) (?P<severity>\w+): (?P<says>.+)$")
PLANTS: Final = {
    number: m for number, line in enumerate(SCRIPT.split("\n"), 1) if (m := PLANT.search(line)) is not None
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recompiles")
    (folder / "plants.py").write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "plants.py"],
        cwd=folder,
        env={**os.environ, "TORCH_LOGS": "recompiles"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (folder / "run.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    return folder / "run.log"


@pytest.fixture(scope="module")
def report(log: Path) -> Report:
    return analyze([str(log)])


def at(report: Report, line: int) -> list[Finding]:
    return [f for f in report.findings if f.code and f.code[0].line == line and f.severity > Severity.NOTE]


@pytest.mark.parametrize(("line", "plant"), PLANTS.items(), ids=lambda v: str(v) if isinstance(v, int) else v["rule"])
def test_a_cause_is_found_at_its_line(report: Report, line: int, plant: re.Match[str]) -> None:
    found = at(report, line)
    assert [(f.rule, f.severity.label) for f in found] == [(plant["rule"], plant["severity"])], brief(report.findings)
    # A tensor's size or dtype names the function only: which line made it the log does not tell.
    function = SCRIPT.split("\n")[line - 1].lstrip().startswith("def ")
    assert found[0].code[0].exactness == ("function" if function else "line")
    assert re.search(plant["says"], words(found[0]), re.DOTALL) is not None, words(found[0])


def test_no_innocent_line_is_accused(report: Report) -> None:
    loud = [f for f in report.findings if f.severity > Severity.NOTE]
    assert {f.code[0].line if f.code else None for f in loud} == set(PLANTS), brief(loud)
    assert len(loud) == len(PLANTS), brief(loud)


def test_paths_are_whole(report: Report, log: Path) -> None:
    places = [p for f in report.findings if f.rule in ("CMP007", "CMP008", "CMP009") for p in f.code]
    assert {Path(p.file).name for p in places} == {"plants.py"}
    assert all(Path(p.file).is_absolute() for p in places)


def test_copies_of_ranks_are_one_finding(report: Report, log: Path, tmp_path: Path) -> None:
    lines = log.read_text(encoding="utf-8").splitlines()
    head = re.compile(r"^[VIWE]\d{4} ")
    woven = [f"[rank{rank}]:{line}" for line in lines if head.match(line) for rank in (0, 1)]
    (tmp_path / "ranks.log").write_text("\n".join(woven) + "\n", encoding="utf-8")
    both = analyze([str(tmp_path / "ranks.log")])

    def told(of: Report) -> list[tuple[str, str, int | None]]:
        found = [f for f in of.findings if f.rule in ("CMP007", "CMP008", "CMP009") and f.severity > Severity.NOTE]
        return sorted((f.rule, f.message, f.code[0].line) for f in found)

    assert told(both) == told(report)
    assert all(f.ranks == (0, 1) for f in both.findings if f.rule in ("CMP007", "CMP008", "CMP009"))
