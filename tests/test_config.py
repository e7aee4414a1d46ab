"""`[tool.necropsy]`, and where reports are stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.records import Anchor

from necropsy.config import Config, ConfigError, load_config
from necropsy.finding import Finding, Severity
from necropsy.report import InputRow, Report
from necropsy.rule import Rule
from necropsy.store import project_folder, report_name, save


class Settings(Struct, frozen=True):
    limit: float = 0.5
    steps: int = 3
    strict: bool = False
    names: tuple[str, ...] = ("a",)


def declare(code: str, settings: type[Any] | None) -> Rule:
    return Rule(code, "a-name", Severity.FATAL, "0.1", (), settings, "settings", False, (), "What.", "x", lambda: [])


RULES = (declare("OOM005", Settings), declare("SYN001", None))
CRASH = Finding(rule="OOM005", severity=Severity.FATAL, message="It died.", anchor=Anchor("run.log", 0, 9, 3))


@pytest.mark.parametrize(
    ("select", "ignore", "selected"),
    [
        ([], [], True),
        (["OOM"], [], True),
        (["SYN"], [], False),
        ([], ["OOM"], False),
        (["OOM005"], ["OOM"], True),
        (["OOM"], ["OOM005"], False),
        (["OOM"], ["OOM"], False),
    ],
)
def test_the_longer_prefix_wins(select: list[str], ignore: list[str], selected: bool) -> None:
    assert Config().override(select=select, ignore=ignore).selects("OOM005") is selected


def test_configuration_is_read_from_above(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "pyproject.toml").write_text(
        '[tool.necropsy]\nselect = ["oom"]\nfail_on = "note"\nsource = ["src"]\nrules.OOM005.limit = 1\n'
    )
    config = load_config(tmp_path / "src")
    assert config.fail_on is Severity.NOTE
    assert config.source == (str(tmp_path / "src"),)
    assert config.rules == {"OOM005": {"limit": 1}}
    config.check(RULES)


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        (
            "selct = []",
            "unknown key 'selct'; known are select, ignore, fail_on, source, cache, rules, inputs, path_mappings, "
            "editor.",
        ),
        ('select = "OOM"', "select must be a list of strings, not a string."),
        ("ignore = [1]", "ignore must be a list of strings, not a list."),
        ("fail_on = 3", "fail_on must be one of fatal, error, warning, note, not 3."),
        ('source = ["none"]', "is not a folder."),
        ("rules = 1", "rules must hold one table of settings for each rule."),
        ('select = ["ABC"]', "select: no rule code starts with 'ABC'; `necropsy rules` lists them."),
        ("rules.ABC001.x = 1", "there is no rule ABC001."),
        ("rules.SYN001.x = 1", "unknown setting 'x'; the rule has none."),
        ("rules.OOM005.x = 1", "unknown setting 'x'; known are limit, steps, strict, names."),
        ("rules.OOM005.limit = true", "limit must be a number, not true or false."),
        ("rules.OOM005.steps = 1.5", "steps must be a whole number, not a number."),
        ("rules.OOM005.names = [1]", "names must be a list, not a list."),
        ("rules.OOM005.strict = 1", "strict must be true or false, not a whole number."),
        ("select = [", "cannot be read"),
    ],
)
def test_configuration_errors_name_file_and_key(tmp_path: Path, toml: str, complaint: str) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(f"[tool.necropsy]\n{toml}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path).check(RULES)
    assert str(caught.value).startswith(str(file))
    assert complaint in str(caught.value)


def test_project_folder_is_the_nearest_one(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "a" / "setup.py").touch()
    assert project_folder(deep) == tmp_path / "a"


def test_report_names_depend_on_inputs_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = report_name([str(tmp_path / "x" / "run.log"), "-"])
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path / "x")
    assert report_name(["-", "run.log"]) == name
    assert report_name(["../run.log"]) != report_name(["run.log"])
    assert report_name(["a\x00/../ö?*.log"]).isascii()


def test_stored_inputs_are_named_from_the_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "p" / "runs").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "p" / "runs")
    names = ["run.tar!rank0.log", "../../far.log", "-", "s3://bucket/run.log"]
    found = [replace(CRASH, anchor=Anchor(n, 0, 9, 3), facts={"path": 3, "input": "kept"}) for n in names]
    stored = save(Report("0.1", [InputRow(n, "log", "", 1, 1) for n in names], found), names, tmp_path / "p")
    data: dict[str, Any] = json.loads(stored.read_text())
    expected = ["runs/run.tar!rank0.log", str(tmp_path / "far.log"), "-", "s3://bucket/run.log"]
    assert [f["anchor"]["input"] for f in data["findings"]] == expected
    assert [i["path"] for i in data["inputs"]] == expected
    assert data["findings"][0]["facts"] == {"path": 3, "input": "kept"}
