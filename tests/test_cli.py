"""The command line: exit statuses, what goes to which stream, pages that are generated."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor, Record

import necropsy.api
import necropsy.rule
from necropsy import commands
from necropsy.commands import analyze as analyze_verb
from necropsy.commands._progress import LARGE, Bar
from necropsy.config import Config
from necropsy.evidence import Table
from necropsy.finding import Finding, Place, Severity
from necropsy.provenance.files import SourceTree
from necropsy.report import InputRow, Report
from necropsy.rule import Rule
from necropsy.store import report_name

Calls = list[tuple[list[str], Config]]
Run = Callable[..., tuple[int, str, str]]


class Memory(Table[Record]):
    """A table that a rule needs."""

    name = "memory"
    row = Record
    columns: ClassVar[dict[str, str]] = {}


class Settings(Struct, frozen=True):
    limit: float = 0.5
    steps: int = 3
    strict: bool = False
    names: tuple[str, ...] = ("a",)


DOC = """The GPU ran out of memory.

What it means
-------------
The allocator found no room; see `nvidia-smi`.

How to fix
----------
Run::

    export A=1
"""
NEEDS = (("memory", Memory, False),)
OOM = Rule("OOM005", "device-out-of-memory", Severity.FATAL, "0.1", NEEDS, Settings, "s", False, (), DOC, "x", list)
RULES = (
    replace(OOM, aliases=("CUDA_ERROR_OUT_OF_MEMORY",)),
    replace(OOM, code="OOM006", name="host-out-of-memory"),
    replace(OOM, code="SYN001", name="sync-in-loop", severity=Severity.WARNING, doc="Waits.", needs=(), settings=None),
)


def finding(severity: Severity = Severity.FATAL, input: str = "run.log") -> Finding:
    return Finding(
        rule="OOM005",
        severity=severity,
        message="The GPU ran out of memory.",
        anchor=Anchor(input, 0, 9, 3, "CUDA out of memory"),
        code=(Place("train.py", 88, text="model(x)"),),
    )


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs `necropsy ...` in an empty project; gives status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(necropsy.rule, "all_rules", lambda: RULES)

    def invoke(*arguments: str) -> tuple[int, str, str]:
        status = commands.run(arguments)
        out, err = capsys.readouterr()
        return status, out, err

    return invoke


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Lets `analyze` find one fatal error in each input, and records how it was called."""
    seen: Calls = []

    def fake(paths: Sequence[str], *, config: Config, progress: object = None) -> Report:
        seen.append((list(paths), config))
        rows = [InputRow(p, "log", "a traceback", 100, 2) for p in paths]
        return Report("0.1", rows, [finding(input=p) for p in paths])

    monkeypatch.setattr(necropsy.api, "analyze", fake)
    return seen


def answer(monkeypatch: pytest.MonkeyPatch, report: Report) -> None:
    """Let `analyze` give this report."""
    monkeypatch.setattr(necropsy.api, "analyze", lambda *_, **__: report)


def unreadable(*names: str, read: Sequence[str] = ()) -> Report:
    issues = Issues()
    for name in names:
        issues.add("source/unreadable", name, detail="No such file or directory")
    return Report("0.1", [InputRow(name, "log", "", 9, 1) for name in read], [], [], issues.rows())


# -- analyze ---------------------------------------------------------------------------------------


def test_a_finding_fails_the_run(run: Run, calls: Calls) -> None:
    status, out, err = run("analyze", "run.log")
    assert (status, err) == (1, "")
    assert out.startswith("FATAL OOM005  train.py:88\nThe GPU ran out of memory.\n")
    assert "\x1b" not in out
    assert calls[0][0] == ["run.log"]


@pytest.mark.parametrize(
    ("severity", "fail_on", "status"),
    [
        (Severity.WARNING, None, 0),
        (Severity.ERROR, None, 1),
        (Severity.ERROR, "fatal", 0),
        (Severity.WARNING, "warning", 1),
        (Severity.NOTE, "NOTE", 1),
    ],
)
def test_fail_on(
    run: Run, monkeypatch: pytest.MonkeyPatch, severity: Severity, fail_on: str | None, status: int
) -> None:
    answer(monkeypatch, Report("0.1", [InputRow("run.log", "log", "", 9, 1)], [finding(severity)]))
    assert run("analyze", "run.log", *(["--fail-on", fail_on] if fail_on else []))[0] == status


def test_no_finding_is_success(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, Report("0.1", [InputRow("run.log", "log", "", 9, 1)]))
    status, out, _ = run("analyze", "run.log")
    assert status == 0
    assert out == "No failure found in run.log (log, 9 bytes, 1 record).\n"


def test_nothing_readable_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, unreadable("gone.log"))
    status, out, err = run("analyze", "gone.log")
    assert (status, out) == (2, "")
    assert err == "necropsy: gone.log: the input cannot be opened or read (No such file or directory).\n"


def test_nothing_readable_is_still_json(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer(monkeypatch, unreadable("gone.log", "too.log"))
    status, out, err = run("analyze", "--format", "json", "--save", "gone.log", "too.log")
    assert status == 2
    assert [i["input"] for i in json.loads(out)["issues"]] == ["gone.log", "too.log"]
    assert len(err.splitlines()) == 1
    assert not (tmp_path / ".necropsy").exists()


def test_an_unknown_format_is_not_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    issues = Issues()
    issues.add("sniff/unknown", "x.bin")
    answer(
        monkeypatch, Report("0.1", [InputRow("x.bin", "unknown", "no format claims it", 9, 0)], issues=issues.rows())
    )
    assert run("analyze", "x.bin")[::2] == (2, "necropsy: x.bin: no format claims this input.\n")


def test_partly_readable_is_a_report(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, unreadable("gone.log", read=["run.log"]))
    status, out, _ = run("analyze", "run.log", "gone.log")
    assert status == 0
    assert "gone.log: the input cannot be opened or read: No such file or directory" in out


def test_an_empty_folder_is_an_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, Report("0.1"))
    assert run("analyze", ".")[::2] == (2, "necropsy: no input was found there.\n")


def test_a_pipe_is_read(run: Run, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("text"))
    assert run("analyze")[0] == 1
    assert calls[0][0] == ["-"]


def test_a_terminal_is_not_read(run: Run, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    status, out, err = run("analyze")
    assert (status, out, calls) == (2, "", [])
    assert err.startswith("Usage: necropsy analyze")


def test_output_goes_to_a_file(run: Run, calls: Calls, tmp_path: Path) -> None:
    assert run("analyze", "run.log", "-o", "report.md", "--format", "md") == (1, "", "")
    assert (tmp_path / "report.md").read_text().startswith("### FATAL OOM005")
    status, _, err = run("analyze", "run.log", "-o", "none/report.md")
    assert (status, err) == (2, f"necropsy: cannot write {Path('none/report.md')}: No such file or directory.\n")


def test_save_replaces_the_report_of_the_same_inputs(run: Run, calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    for _ in range(2):
        status, _, err = run("analyze", "--save", "run.log")
    folder = tmp_path / ".necropsy"
    stored = [p.name for p in folder.iterdir()]
    assert (status, sorted(stored)) == (1, [".gitignore", report_name(["run.log"])])
    assert err == f"Report stored as {Path('.necropsy') / report_name(['run.log'])}\n"
    assert (folder / ".gitignore").read_text() == "*\n"
    assert json.loads((folder / report_name(["run.log"])).read_text())["schema"] == "necropsy/1"


def test_options_reach_the_analysis(run: Run, calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    run("analyze", "a", "b", "--select", "oom,SYN", "--select", "OOM006", "--ignore", "OOM005", "--source", "src")
    paths, config = calls[0]
    assert paths == ["a", "b"]
    assert config.select == ("OOM", "SYN", "OOM006")
    assert [r.code for r in RULES if config.selects(r.code)] == ["OOM006", "SYN001"]
    assert config.source == (str(tmp_path / "src"),)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--select", "XYZ"], "option --select: no rule code starts with 'XYZ'; `necropsy rules` lists them."),
        (["--ignore", "O0M"], "option --ignore: no rule code starts with 'O0M'; `necropsy rules` lists them."),
        (["--fail-on", "bad"], "option --fail-on must be one of fatal, error, warning, note, not 'bad'."),
        (["--source", "nowhere"], "is not a folder."),
        (["--format", "yaml"], "'yaml' is not one of json, md, text."),
        (["--unknown"], "No such option"),
    ],
)
def test_wrong_use(run: Run, calls: Calls, arguments: list[str], complaint: str) -> None:
    status, out, err = run("analyze", "run.log", *arguments)
    assert (status, out, calls) == (2, "", [])
    assert complaint in err


def test_an_interrupt_is_quiet(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Report:
        raise KeyboardInterrupt

    monkeypatch.setattr(necropsy.api, "analyze", interrupted)
    assert run("analyze", "run.log") == (130, "", "")


def test_colour_is_for_terminals(run: Run, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1;31mFATAL" in run("analyze", "run.log")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run("analyze", "run.log")[1]


def test_sources_at_hand_are_shown_where_they_lie(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("\n" * 86 + "before\nmodel(x)\n")
    tree = SourceTree([str(tmp_path / "src")], [], {"train.py": {88: "model(x)"}})
    answer(monkeypatch, Report("0.1", [InputRow("run.log", "log", "", 9, 1)], [finding()], excerpt=tree.excerpt))
    out = run("analyze", "run.log")[1]
    assert out.startswith(f"FATAL OOM005  {Path('src/train.py')}:88\n")
    assert "  87 │ before\n> 88 │ model(x)\n" in out


# -- explain, rules, sniff -------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["OOM005", "oom005", "Device_Out-of-Memory", "cuda error out of memory"])
def test_explain_finds_code_name_and_alias(run: Run, query: str) -> None:
    status, out, err = run("explain", query)
    assert (status, err) == (0, "")
    assert out.startswith("OOM005 device-out-of-memory\nThe GPU ran out of memory.\n\nWhat it means\n")
    assert "Settings: limit = 0.5, steps = 3, strict = false" in out


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("OOM05", "there is no rule 'OOM05'; did you mean OOM005, OOM006?"),
        ("oom", "oom is a family of rules: OOM005, OOM006."),
        ("zzz\x1b[2J", "there is no rule 'zzz\\x1b[2J'; `necropsy rules` lists all."),
    ],
)
def test_explain_helps_on(run: Run, query: str, answer: str) -> None:
    assert run("explain", query) == (2, "", f"necropsy: {answer}\n")


def test_rules_are_listed(run: Run) -> None:
    assert run("rules")[1].splitlines()[2] == "SYN001  sync-in-loop          warning  Waits."


def test_pages_are_written_checked_and_removed(run: Run, calls: Calls, tmp_path: Path) -> None:
    case = tmp_path / "fixtures/rules/OOM005/fires-small-gpu"
    case.mkdir(parents=True)
    (case / "run.log").write_text("CUDA out of memory\n")
    (case / "origin.md").write_text("# Hand-made after a real log.\nMore.\n")
    (case.parent / "silent-other-process").mkdir()
    assert run("rules", "--write", "docs", "--check")[0] == 1
    assert run("rules", "--write", "docs")[0] == 0
    assert run("rules", "--write", "docs", "--check") == (0, "", "")
    page = (tmp_path / "docs/rules/OOM005.md").read_text()
    assert "\n## What it means\n\nThe allocator found" in page
    assert "- small gpu (Hand-made after a real log. More)" in page
    assert "## What this is not\n\n- other process\n" in page
    assert "FATAL OOM005  train.py:88\n" in page
    assert "run.log:3\n" in page
    assert str(tmp_path) not in page
    index = (tmp_path / "docs/rules/README.md").read_text()
    assert "| [SYN001](SYN001.md) | sync-in-loop | warning | Waits. |" in index
    assert "[rank0]: Traceback" in (tmp_path / "docs/formats/log.md").read_text()
    assert "\n## exceptions\n" in (tmp_path / "docs/tables.md").read_text()

    (tmp_path / "docs/rules/OLD001.md").write_text(page)
    (tmp_path / "docs/rules/mine.md").write_text("Written by a person.\n")
    (tmp_path / "docs/rules/SYN001.md").write_text("changed\n")
    status, _, err = run("rules", "--write", "docs", "--check")
    stale = [str(Path("docs/rules/OLD001.md")), str(Path("docs/rules/SYN001.md"))]
    assert (status, [line.split()[1] for line in err.splitlines()]) == (1, stale)
    run("rules", "--write", "docs")
    assert not (tmp_path / "docs/rules/OLD001.md").exists()
    assert (tmp_path / "docs/rules/mine.md").exists()


def test_check_needs_a_folder(run: Run) -> None:
    assert run("rules", "--check")[0] == 2


def test_sniff(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {
        "a.tar": [
            InputRow("a.tar!x", "log", "a traceback\x07 at line 3", 1, 0),
            InputRow("a.tar!y", "unknown", "", 1, 0),
        ]
    }
    monkeypatch.setattr(necropsy.api, "sniff", lambda path: rows.get(path, []))
    assert run("sniff", "a.tar") == (0, "a.tar!x: log (a traceback\\x07 at line 3)\na.tar!y: unknown\n", "")
    assert run("sniff", "gone")[::2] == (2, "necropsy: gone: nothing to read there.\n")


def test_help_describes_every_option(run: Run) -> None:
    for verb in ("analyze", "explain", "rules", "sniff"):
        status, out, _ = run(verb, "--help")
        assert status == 0
        options = [line for line in out.split("Options:")[1].splitlines() if line.startswith("  -")]
        assert [line for line in options if len(line.split("  ")) < 3] == []


def test_version(run: Run) -> None:
    assert run("--version")[1] == f"necropsy {necropsy.__version__}\n"


def test_a_configuration_error_is_one_line(run: Run, calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.necropsy.rules.OOM005]\nlimt = 1\n")
    status, out, err = run("analyze", "run.log")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert "unknown setting 'limt'" in err


def test_the_bar_waits_for_large_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", shown)
    bar = Bar()
    bar.update(10, LARGE - 1)
    bar.close()
    assert shown.getvalue() == ""
    bar.update(LARGE // 2, LARGE)
    bar.close()
    assert "Reading" in shown.getvalue()


def test_nothing_read_counts_more_than_the_first() -> None:
    assert analyze_verb.nothing_read(unreadable("a", "b", "c")).endswith("; and 2 more like it.")
