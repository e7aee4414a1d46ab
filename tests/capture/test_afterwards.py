"""After the job: the report, what is stored for editors, and the repetition of an asynchronous error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FAILS = """
import os

def launch():
    print("blocking", os.environ.get("CUDA_LAUNCH_BLOCKING"), "captured", "NECROPSY_CAPTURE" in os.environ, flush=True)
    raise RuntimeError(
        "CUDA error: device-side assert triggered\\nCUDA kernel errors might be asynchronously reported at some other "
        "API call, so the stacktrace below might be incorrect.\\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
        "\\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\\n"
    )

launch()
"""


def capture(folder: Path, program: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "job.py").write_text(program)
    (folder / "pyproject.toml").write_text("[project]\nname = 'job'\n")
    command = [sys.executable, "-m", "necropsy", "capture", "--out", "run", *options, "--", sys.executable, "job.py"]
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def passes(folder: Path) -> list[str]:
    return [p["name"] for p in json.loads((folder / "run" / "manifest.json").read_text())["passes"]]


def test_the_report_is_printed_and_stored(tmp_path: Path) -> None:
    done = capture(tmp_path, "def step():\n    raise ValueError('no samples')\n\nstep()\n", "--save")
    assert (done.returncode, done.stdout) == (1, "")
    assert "FATAL CRS006  job.py:2 in step" in done.stderr
    assert done.stderr.rstrip().splitlines()[-2] == "necropsy: to see this again: necropsy analyze run"
    (stored,) = (tmp_path / ".necropsy").glob("*.json")
    assert json.loads(stored.read_text())["findings"][0]["rule"] == "CRS006"


def test_a_repetition_is_announced(tmp_path: Path) -> None:
    done = capture(tmp_path, FAILS, "--why", "crash", "--no-report")
    assert done.returncode == 1
    assert done.stdout == "blocking None captured True\n"
    assert "add --rerun to run the command once more with CUDA_LAUNCH_BLOCKING=1" in done.stderr
    assert passes(tmp_path) == ["job"]


def test_an_asynchronous_error_is_repeated_if_asked_for(tmp_path: Path) -> None:
    done = capture(tmp_path, FAILS, "--why", "crash", "--rerun")
    assert done.returncode == 1
    assert done.stdout == "blocking None captured True\nblocking 1 captured False\n"
    assert passes(tmp_path) == ["job", "blocking"]
    assert "FATAL CRS015" in done.stderr
    assert "attempt-1/output.log" in done.stderr


@pytest.mark.parametrize(
    ("program", "variables"),
    [("raise SystemExit(1)", {}), (FAILS, {"CUDA_LAUNCH_BLOCKING": "1"}), ("print('CUDA error: none')", {})],
)
def test_other_failures_are_not_repeated(tmp_path: Path, program: str, variables: dict[str, str]) -> None:
    done = capture(tmp_path, program, "--rerun", "--no-report", **variables)
    assert "--rerun" not in done.stderr
    assert passes(tmp_path) == ["job"]
