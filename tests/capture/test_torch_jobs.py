"""Real jobs of torch on the CPU under capture: they end as they would alone, and leave their evidence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from necropsy import api
from necropsy.report import Report

JOBS = Path(__file__).parent / "jobs"
CAPTURE = [sys.executable, "-m", "necropsy", "capture", "--out", "run"]


def capture(folder: Path, *command: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        [*CAPTURE, *options, "--", *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def python(folder: Path, job: str, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return capture(folder, sys.executable, str(JOBS / job), *arguments, options=options)


def notes(folder: Path, collector: str = "profiler") -> list[dict[str, Any]]:
    found = []
    for file in sorted((folder / "run").glob("process-*.json")):
        found += [n for n in json.loads(file.read_text())["notes"] if n["collector"] == collector]
    return found


def failures(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "run").glob("process-*.json"))
    return [n for file in files for n in json.loads(file.read_text())["notes"] if n["what"] == "failed"]


def analyzed(folder: Path) -> Report:
    return api.analyze(str(folder / "run"))


def planted(job: str) -> dict[int, str]:
    lines = (JOBS / job).read_text().splitlines()
    return {n: line.partition("# plant: ")[2] for n, line in enumerate(lines, 1) if "# plant: " in line}


def test_a_compiled_training_job(tmp_path: Path) -> None:
    done = python(tmp_path, "compiled.py")
    assert done.returncode == 0
    assert done.stdout == "hidden (16, 128)\n" * 14  # the report is on stderr
    own, _, report = done.stderr.partition("necropsy: the job ended with status 0")
    assert own == "done True\n"
    (recorded,) = [n for n in notes(tmp_path) if n["what"] == "recorded"]
    assert (recorded["steps"], recorded["why"]) == (4, "enough steps")
    assert failures(tmp_path) == []
    found = {f.code[0].line: f.rule for f in analyzed(tmp_path).findings if f.code and f.severity.label != "note"}
    assert set(found) == set(planted("compiled.py"))
    again = subprocess.run(
        [sys.executable, "-m", "necropsy", "analyze", "run"],
        cwd=tmp_path, env={**os.environ, "COLUMNS": "100"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    first = report.partition("\n")[2].rpartition("necropsy: to see this again: necropsy analyze run\n")[0]
    assert again.stdout == first


def test_a_job_that_fails_leaves_what_was_recorded(tmp_path: Path) -> None:
    done = python(tmp_path, "crashing.py", "error")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    lead = analyzed(tmp_path).findings[0]
    assert (lead.rule, lead.code[0].line, lead.severity.label) == ("CRS006", 23, "fatal")
    (recorded,) = [n for n in notes(tmp_path) if n["what"] == "recorded"]
    assert recorded["why"] == "the process ended"
    assert len(list((tmp_path / "run").glob("process-*.json"))) == 1  # none of the forked DataLoader worker
    assert analyzed(tmp_path).steps[0].steps >= 2


def test_a_job_that_is_told_to_end_leaves_what_was_recorded(tmp_path: Path) -> None:
    done = python(tmp_path, "crashing.py", "term", options=("--no-report",))
    assert done.returncode == 128 + signal.SIGTERM
    assert [n["why"] for n in notes(tmp_path) if n["what"] == "recorded"] == ["the process ended"]
    assert "CRS005" in {f.rule for f in analyzed(tmp_path).findings}


def test_control_c_ends_the_job_as_ever(tmp_path: Path) -> None:
    job = subprocess.Popen(
        [*CAPTURE, "--no-report", "--", sys.executable, str(JOBS / "crashing.py"), "wait"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0,
    )  # fmt: skip
    assert job.stdout is not None
    assert job.stdout.readline() == b"waiting\n"
    time.sleep(0.5)
    os.killpg(job.pid, signal.SIGINT)
    _, error = job.communicate(timeout=60)
    assert job.returncode == 130
    assert error.count(b"\nKeyboardInterrupt") == 1
    assert [n["why"] for n in notes(tmp_path) if n["what"] == "recorded"] == ["the process ended"]


def test_each_rank_writes_its_own_files(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = capture(tmp_path, *run, str(JOBS / "ranks.py"), options=("--no-report",))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 of 2 is done", "rank 1 of 2 is done"]
    recorded = {n["file"].split("-")[1] for n in notes(tmp_path) if n["what"] == "recorded"}
    assert recorded == {"rank0", "rank1"}
    report = analyzed(tmp_path)
    assert sorted(s.rank for s in report.steps if s.rank is not None) == [0, 1]
    assert [f.rule for f in report.findings if f.severity.label != "note"] == []


def test_the_jobs_own_hooks_and_profiler_come_first(tmp_path: Path) -> None:
    done = python(tmp_path, "own_tools.py", options=("--no-report", "--steps", "100"))
    assert (done.returncode, done.stdout) == (0, "28 True\n"), done.stderr
    (recorded,) = [n for n in notes(tmp_path) if n["what"] == "recorded"]
    assert recorded["why"] == "the job starts a profiler of its own"
    assert (recorded["first"], recorded["steps"]) == (3, 4)


def test_calls_of_a_model_are_steps_where_nothing_is_optimized(tmp_path: Path) -> None:
    done = python(tmp_path, "inference.py", options=("--no-report",))
    assert done.returncode == 0, done.stderr
    (recorded,) = [n for n in notes(tmp_path) if n["what"] == "recorded"]
    assert recorded["steps"] == 4
    assert done.stdout == "False\n"  # the wrapper has gone after the recording
    assert analyzed(tmp_path).steps[0].steps == 4


def test_the_compiler_makes_the_same_graphs(tmp_path: Path) -> None:
    alone = subprocess.run(
        [sys.executable, str(JOBS / "counters.py")], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    done = python(tmp_path, "counters.py", options=("--no-report", "--collect", "profiler"))
    assert [n["what"] for n in notes(tmp_path)] == ["recording", "recorded"]
    one, other = json.loads(alone.stdout), json.loads(done.stdout)
    assert one["stats"]["unique_graphs"] > 0
    assert (one["stats"], one["graph_break"]) == (other["stats"], other["graph_break"])


@pytest.mark.parametrize("option", ["--print-env", "--dry-run"])
def test_nothing_runs_where_only_the_plan_is_asked_for(tmp_path: Path, option: str) -> None:
    done = capture(tmp_path, "no-such-program", options=(option, "--why", "slow"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "NECROPSY_CAPTURE=" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_structured_log_stops_growing_at_its_bound(tmp_path: Path) -> None:
    from necropsy.capture.plan import BOOTSTRAP

    settings = {"folder": str(tmp_path / "run"), "collect": {"trace": ["torch"]}, "trace_bytes": 20_000}
    environment = {**os.environ, "PYTHONPATH": str(BOOTSTRAP), "NECROPSY_CAPTURE": json.dumps(settings)}
    done = subprocess.run([sys.executable, str(JOBS / "compiled.py")], cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0
    assert [n["what"] for n in notes(tmp_path, "trace")] == ["variables", "limit"]
    (log,) = (tmp_path / "run" / "torch_trace").iterdir()
    assert 10_000 < log.stat().st_size < 200_000  # the entry that reaches the bound is written whole
