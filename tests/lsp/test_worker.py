"""The worker process: what it answers, what it may take, and what its end costs the server."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from necropsy_lsp import analysis
from necropsy_lsp.analysis import AnalysisFailed, Limits, Request, WholeReport, analyze, decode, ending
from necropsy_lsp.worker import reason

LOG = """\
Traceback (most recent call last):
  File "/home/trainer/projects/vision/train.py", line 5, in train
    loss = step(batch); log("🔥", loss.item())
RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0
"""


def run(request: Request) -> WholeReport:
    return asyncio.run(analyze(request))


def failure(request: Request) -> AnalysisFailed:
    with pytest.raises(AnalysisFailed) as caught:
        run(request)
    return caught.value


def stand_in(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let the worker process run this instead."""
    monkeypatch.setattr(analysis, "_BOOT", code)


def test_a_file_is_named_from_its_folder_on(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "run.log").write_text(LOG, encoding="utf-8")
    report = run(Request("logs/run.log", tmp_path))
    assert [i.path for i in report.inputs] == ["logs/run.log"]
    (finding,) = report.findings
    assert (finding.anchor.input, finding.anchor.line) == ("logs/run.log", 4)
    assert finding.code[0].line == 5


@pytest.mark.parametrize(
    "start", ["", "x" * 200_000 + "\n", "\ud800\n"], ids=["short", "more than a pipe", "surrogate"]
)
def test_text_is_written_to_the_worker(tmp_path: Path, start: str) -> None:
    report = run(Request("-", tmp_path, text=start + LOG))
    assert [f.code[0].line for f in report.findings] == [5]


def test_rules_are_selected_and_the_project_is_heard(tmp_path: Path) -> None:
    assert run(Request("-", tmp_path, text=LOG, ignore=("CRS",))).findings == []
    (tmp_path / "pyproject.toml").write_text("[tool.necropsy]\nignore = ['CRS']\n", encoding="utf-8")
    assert run(Request("-", tmp_path, text=LOG)).findings == []


def test_a_wrong_configuration_is_the_reason(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.necropsy]\nselect = 3\n", encoding="utf-8")
    assert "[tool.necropsy]: select must be a list of strings" in str(failure(Request("-", tmp_path, text=LOG)))


@pytest.mark.parametrize("name", ["dataclasses.py", "json.py", "parsers/__init__.py", "necropsy/__init__.py"])
def test_a_users_own_modules_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    trap = tmp_path / name
    trap.parent.mkdir(exist_ok=True)
    trap.write_text("raise SystemExit('imported')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend("")
    assert len(run(Request("-", tmp_path, text=LOG)).findings) == 1


def test_the_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = failure(Request("-", tmp_path, text=LOG, limits=Limits(report=10)))
    assert "more than the 10 that an editor takes" in str(said)
    stand_in(monkeypatch, "import time; time.sleep(600)")
    began = time.monotonic()
    assert str(failure(Request("-", tmp_path, text=LOG, limits=Limits(seconds=0.2)))) == "it took longer than 0.2 s"
    assert time.monotonic() - began < 60


@pytest.mark.skipif(not hasattr(os, "nice"), reason="the memory of a process cannot be limited on Windows")
def test_a_full_memory_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(
        monkeypatch,
        "import json, sys; sys.path[:] = json.loads(sys.argv[1]); import necropsy_lsp.worker as w\n"
        "w.analyze = lambda request, channel: bytes(1 << 40)\nw.main()",
    )
    assert str(failure(Request("-", tmp_path, text=LOG))) == "it needs more memory than it may have"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended without an answer (killed by SIGKILL)"),
        ("raise SystemExit(3)", "ended without an answer (exit status 3)"),
        ("pass", "ended without an answer"),
        ("print('hello')", "makes no sense"),
        ("print('[' * 100_000)", "makes no sense"),
        ("print('{\"report\": 5}'); print('{}')", "within its report"),
        ("print('{\"report\": 2}\\n{}', end='')", "is no report"),
        ("print('{\"report\": -1}')", "makes no sense"),
        ("print('{\"report\": 100000000000000}')", "more than the"),
        ('print(\'{"error": "it fell over"}\')', "it fell over"),
        ("print('{\"error\": 3}')", "makes no sense"),
    ],
)
def test_a_worker_that_fails_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, says: str) -> None:
    stand_in(monkeypatch, code)
    assert says in str(failure(Request("-", tmp_path, text=LOG * 10_000)))


def test_what_a_dying_worker_printed_is_kept_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "import sys; sys.stderr.write('x' * 100_000 + 'the last word'); sys.exit(1)")
    said = failure(Request("-", tmp_path, text=LOG)).said
    assert said.endswith("the last word")
    assert len(said) <= 4096


def test_a_folder_that_is_gone_is_a_reason(tmp_path: Path) -> None:
    assert "cannot be started" in str(failure(Request("run.log", tmp_path / "gone")))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"schema": "necropsy/2", "findings": []}', "expected 'necropsy/1'"),
        (b"\xff", "no report"),
        (b"", "no report"),
    ],
)
def test_an_answer_that_is_no_report(data: bytes, says: str) -> None:
    with pytest.raises(AnalysisFailed, match=says):
        decode(data)


def test_cancelling_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "pid"
    code = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    stand_in(monkeypatch, code)

    async def talk() -> None:
        task = asyncio.ensure_future(analyze(Request("-", tmp_path, text=LOG)))
        while not (mark.exists() and mark.read_text()):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(talk())
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, 'print(\'{"read": 1, "size": 4}\\n{"read": 4, "size": null}\\n{"error": "end"}\')')
    told: list[tuple[int, int | None]] = []
    with pytest.raises(AnalysisFailed, match="end"):
        asyncio.run(analyze(Request("-", tmp_path, text=LOG), lambda *at: told.append(at)))
    assert told == [(1, 4), (4, None)]


def test_how_a_process_ended() -> None:
    assert [ending(0), ending(2), ending(-11), ending(-250)] == [
        "",
        " (exit status 2)",
        " (killed by SIGSEGV)",
        " (killed by signal 250)",
    ]


def test_reasons() -> None:
    try:
        {}["x"]  # type: ignore[index]
    except KeyError as error:
        assert reason(error).startswith("KeyError: 'x' (test_worker.py, line ")
    assert reason(MemoryError()) == "it needs more memory than it may have"
    assert reason(OSError(12, "Cannot allocate memory")) == "it needs more memory than it may have"
