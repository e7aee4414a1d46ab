"""OOM011 on made histories: what stays is told whatever happened at the end, and what comes and goes is not."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from tests.support.kept_cases import ROOT, TRAINING, Program, cases, collected, everything, nothing

from necropsy_parsers.issues import Issues
from necropsy_parsers.source import open_sources

from necropsy.api import analyze
from necropsy.config import Config
from necropsy.finding import Finding, Severity

CASES = cases()


def told(tmp_path: Path, program: Program, source: str = "") -> list[Finding]:
    """The findings of the rule, with the program's source or another one."""
    program.a.write(tmp_path / "memory-7.pickle")
    (tmp_path / "src").mkdir(exist_ok=True)
    (tmp_path / "src" / "train_tagger.py").write_text(source or program.source, encoding="utf-8")
    config = Config(source=(str(tmp_path / "src"),), cache=False)
    return [f for f in analyze([str(tmp_path / "memory-7.pickle")], config=config).findings if f.rule == "OOM011"]


@pytest.mark.parametrize("name", CASES)
def test_fixtures_are_as_made_and_near_misses_say_nothing(tmp_path: Path, name: str) -> None:
    (source,) = open_sources([str(ROOT / name / "input.pickle.xz")], Issues())
    assert pickle.loads(b"".join(source.chunks())) == CASES[name].a.snapshot()
    if CASES[name].source:
        assert (ROOT / name / "src" / "train_tagger.py").read_text(encoding="utf-8") == CASES[name].source
    assert bool(told(tmp_path, CASES[name])) == name.startswith("fires-")


@pytest.mark.parametrize("left", [0, 1])
def test_growth_is_of_the_whole_history(tmp_path: Path, left: int) -> None:
    """Taken in the midst of a run, all is still alive; later, evaluation may follow."""
    p = Program(before="history = []", behind="history.append(loss)").run(40, everything)
    first = next(i for i in range(len(p.a.events) - 1, 0, -1) if p.a.events[i]["action"] == "alloc")
    if left == 0:
        del p.a.events[first + 1 :]
    for _ in range(left * 5):
        p.a.free(p.a.alloc(4096, p.at("collect", "collect"), p.main))
    (found,) = told(tmp_path, p)
    assert (found.code[0].line, found.severity) == (29, Severity.WARNING)
    assert "39 blocks" in found.message


def test_evaluation_behind_training(tmp_path: Path) -> None:
    p = Program().run(8, nothing)
    collected(p, 40)
    (found,) = told(tmp_path, p)
    assert (found.code[0].line, found.severity) == (35, Severity.NOTE)


def test_growth_that_ended_long_ago_is_none(tmp_path: Path) -> None:
    p = Program(before="history = []", behind="history.append(loss)").run(16, everything)
    for _ in range(400):
        p.a.free(p.a.alloc(4096, p.at("collect", "collect"), p.main))
    assert told(tmp_path, p) == []


def test_another_source_is_not_believed(tmp_path: Path) -> None:
    p = Program(before="history = []", behind="history.append(loss)").run(16, everything)
    (found,) = told(tmp_path, p, "\n\n\n" + p.source)
    assert (found.code[0].line, found.severity) == (13, Severity.NOTE)
    assert "not known" in found.message


@pytest.mark.parametrize(
    ("behind", "line", "severity"),
    [
        ("history.append(loss.detach())", 29, Severity.NOTE),
        ("history.append(loss)\nif len(history) > 99:\n    history.clear()", 13, Severity.NOTE),
        ("history.append(loss)\nreport(history)", 29, Severity.WARNING),
        ("keep(loss)", 13, Severity.NOTE),
    ],
)
def test_how_sure_it_is(tmp_path: Path, behind: str, line: int, severity: Severity) -> None:
    (found,) = told(tmp_path, Program(before="history = []", behind=behind).run(16, everything))
    assert (found.code[0].line, found.severity) == (line, severity)


def test_without_times_bytes_count(tmp_path: Path) -> None:
    p = Program(before="history = []", behind="keep(loss, scores)").run(24, everything, scores=True)
    for event in p.a.events:
        del event["time_us"]
    (found,) = told(tmp_path, p)
    assert found.severity is Severity.WARNING
    assert "an hour" not in found.message
    assert "{" not in TRAINING.format(before="", outer="", behind="")
