"""Settings of the client and of the project, and comments that silence findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from necropsy.config import read_config
from necropsy.provenance.paths import candidates, mapped
from necropsy_lsp.session import Session
from necropsy_lsp.settings import Settings, of_client, of_project
from necropsy_lsp.suppress import silences, without_comment


def project(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


def test_the_client_wins_over_the_project(tmp_path: Path) -> None:
    project(tmp_path, '[tool.necropsy]\nselect = ["OOM"]\ninputs = ["*.log"]\n[tool.necropsy.editor]\nstale = false\n')
    given = of_client({"necropsy": {"select": ["CMP"], "maxFindings": 5, "serverPath": "x", "pathMappings": None}})
    found = given.over(of_project(tmp_path / "src").over(Settings()))
    assert found == Settings(select=("CMP",), inputs=("*.log",), stale=False, max_findings=5)
    assert given.complaints == ()


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"inputs": "x"}, "necropsy.inputs must be a list of strings. The default is used."),
        ({"maxFindings": True}, "necropsy.maxFindings must be a number from 1 to 10000. The default is used."),
        ({"maxFindings": 0}, "necropsy.maxFindings must be a number from 1 to 10000. The default is used."),
        ({"codeLens": 1}, "necropsy.codeLens must be true or false. The default is used."),
        ({"pathMappings": {"a": 1}}, "necropsy.pathMappings must be a table of strings. The default is used."),
        (
            {"severities": {"CMP": "loud"}},
            "necropsy.severities must hold only error, warning, information, hint, off. The default is used.",
        ),
    ],
)
def test_what_cannot_be_used_is_said(value: object, complaint: str) -> None:
    given = of_client(value)
    assert (given.complaints, given.over(Settings())) == ((complaint,), Settings())


@pytest.mark.parametrize("value", [None, [], "x", {}, {"necropsy": None}, {"other": {"inputs": 3}}])
def test_a_client_may_send_nothing(value: object) -> None:
    assert of_client(value).over(Settings()) == Settings()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[tool.necropsy]\nnothing = 1\n", "[tool.necropsy] nothing: there is no such setting"),
        ("[tool.necropsy]\neditor = 1\n", "editor must be a table"),
        ("[tool.necropsy.editor]\npull = 1\n", "[tool.necropsy.editor] pull must be true or false"),
        ("[tool]\nnecropsy = 1\n", "[tool.necropsy] must be a table"),
        ("[tool.necropsy", "cannot be read"),
    ],
)
def test_a_project_that_is_wrong_is_said(tmp_path: Path, text: str, complaint: str) -> None:
    given = of_project(project(tmp_path, text))
    assert given.over(Settings()) == Settings()
    (said,) = given.complaints
    assert complaint in said


def test_the_analyzer_takes_a_project_with_settings_of_editors(tmp_path: Path) -> None:
    text = '[tool.necropsy]\ninputs = ["*.log"]\npath_mappings = {a = "b"}\n[tool.necropsy.editor]\nstale = false\n'
    assert read_config(project(tmp_path, text) / "pyproject.toml").select == ()
    assert of_project(tmp_path).complaints == ()


def test_each_folder_has_its_project(tmp_path: Path) -> None:
    for name in ("OOM", "CMP"):
        (tmp_path / name).mkdir()
        project(tmp_path / name, f'[tool.necropsy]\nignore = ["{name}"]\n')
    session = Session()
    session.configure([tmp_path / "OOM", tmp_path / "CMP"])
    assert session.settings.ignore == ("OOM",)
    assert session.settings_for(tmp_path / "CMP" / "src").ignore == ("CMP",)


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        (Settings(), True),
        (Settings(ignore=("CMP",)), False),
        (Settings(ignore=("cmp003, OOM",)), False),
        (Settings(select=("OOM",)), False),
        (Settings(ignore=("CMP",), select=("CMP003",)), True),
        (Settings(severities={"CMP": "off"}), False),
        (Settings(severities={"CMP": "off", "CMP003": "hint"}), True),
    ],
)
def test_which_rules_are_shown(settings: Settings, shown: bool) -> None:
    assert settings.shows("CMP003") is shown


@pytest.mark.parametrize(
    ("line", "silent", "rest"),
    [
        ("x = 1  # necropsy: ignore[CMP003]", True, "x = 1"),
        ("x = 1 #necropsy:ignore [ OOM , cmp ] because", True, "x = 1"),
        ("x = 1  # necropsy: ignore", True, "x = 1"),
        ("x = 1  # why  # necropsy: ignore[CMP003]", True, "x = 1  # why"),
        ("x = 1  # necropsy: ignore[OOM]", False, "x = 1"),
        ("x = 1  # necropsy: ignore[]", False, "x = 1"),
        ("x = 1  # necropsy: ignored", False, "x = 1  # necropsy: ignored"),
        ("x = 1  # noqa: CMP003", False, "x = 1  # noqa: CMP003"),
        ("necropsy: ignore", False, "necropsy: ignore"),
    ],
)
def test_comments(line: str, silent: bool, rest: str) -> None:
    assert (silences(line, "CMP003"), without_comment(line)) == (silent, rest)


def test_mappings_and_links(tmp_path: Path) -> None:
    (tmp_path / "src" / "vision").mkdir(parents=True)
    file = tmp_path / "src" / "vision" / "train.py"
    file.touch()
    mappings = {"/build": "elsewhere", "/build/job": "src", "": "src"}
    assert mapped("/build/job/vision/train.py", mappings, [tmp_path]) == [file]
    assert mapped("/build/jobs/x.py", mappings, [tmp_path]) == [tmp_path / "elsewhere" / "jobs" / "x.py"]
    assert mapped("/other/x.py", mappings, [tmp_path]) == []
    assert mapped("/build/../x.py", mappings, [tmp_path]) == []
    assert candidates("/build/job/vision/train.py", mappings, [], [tmp_path]) == [file]
    assert candidates("/home/x/src/vision/train.py", {}, [tmp_path], [tmp_path]) == [file]
    assert candidates("/etc/hostname", {}, [tmp_path], [tmp_path]) == []
