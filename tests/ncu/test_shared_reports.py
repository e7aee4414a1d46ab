"""Real reports, where they are at hand: what must be found in them, and what reading the largest costs."""

from __future__ import annotations

import importlib.util
import lzma
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from necropsy.api import analyze

LARGEST = "kernels_full.ncu-rep.xz"  # 141 MB unpacked, 95 launches with --set full
HEAVIEST = 10  # from this launch on are those with the largest binaries
MEMORY = 400 << 20  # bytes of one process: what a laptop beside a job has to spare
# Linux counts the peak of whoever started a process as its own: a small one in between keeps pytest's out of it.
MEASURE = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(status, used.ru_maxrss, used.ru_utime + used.ru_stime, file=sys.stderr)
"""
CAPTURES = ("ncu/kernels_pystack.ncu-rep.xz", "ncu/kernels_raw.csv.gz")
CASES = ("041-ncu-permission-among-children", "043-ncu-text-single-block-grid")


@pytest.mark.parametrize("name", [*CAPTURES, *CASES])
def test_what_must_be_found(shared: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("score", shared / "score.py")
    assert spec is not None
    assert spec.loader is not None
    judge = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(judge)
    monkeypatch.setattr(judge, "report", lambda command, path: (analyze([str(path)]).to_json()["findings"], ""))
    folder, toml = ("captures", "expected.toml") if name in CAPTURES else ("cases", "judge.toml")
    specs = tomllib.loads((shared / folder / toml).read_text(encoding="utf-8"))
    if name in CAPTURES:
        row, met = judge.capture(name, specs[name], shared / folder, shared / "workloads", "")
    else:
        row, met = judge.case(name, specs[name], shared / folder, "", False)
    assert met, row


@pytest.mark.skipif(sys.platform == "win32", reason="this system does not tell what a process used")
def test_a_process_stays_small(shared: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.ncu-rep"
    path.write_bytes(lzma.decompress((shared / "captures" / "ncu" / LARGEST).read_bytes()))
    command = [sys.executable, "-P", "-m", "necropsy_parsers.ncu.worker", str(path), str(HEAVIEST), "10"]
    run = subprocess.run([sys.executable, "-c", MEASURE, *command], capture_output=True, check=True, text=True)
    status, resident, seconds = run.stderr.split()[-3:]
    assert status == "0"
    scale = 1 if sys.platform == "darwin" else 1024
    assert int(resident) * scale <= MEMORY
    assert float(seconds) <= 4  # of ten such processes; 0.7 s where nothing else runs
