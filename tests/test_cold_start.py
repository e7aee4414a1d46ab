"""The program as a process: what a cold start imports, closed pipes, narrow encodings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CRASH = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: x\n'
CLI = [sys.executable, "-c", "from necropsy.commands import main; main()"]


def environment(root: Path) -> dict[str, str]:
    folders = [str(root / name) for name in ("analyzer", "parsers", "lsp")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "PYTHONWARNINGS": "error"}


def test_a_cold_start_imports_nothing_heavy(root: Path, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(CRASH)
    code = (
        "import sys; from necropsy.commands import run; status = run(['analyze', 'run.log'])\n"
        "heavy = {'pandas', 'numpy', 'plotly', 'jinja2', 'pygls', 'pygments', 'torch', 'dask'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(root), capture_output=True, text=True, check=False
    )
    assert done.stderr == "[]\n"
    assert done.returncode == 1
    assert "a.py:1 in f" in done.stdout


@pytest.mark.parametrize(("arguments", "status"), [(["rules"], 0), (["analyze", "run.log"], 1)])
def test_a_reader_that_leaves_is_no_news(root: Path, tmp_path: Path, arguments: list[str], status: int) -> None:
    (tmp_path / "run.log").write_text(CRASH)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*CLI, *arguments], cwd=tmp_path, env=environment(root), stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (status, b"")


def test_an_ascii_terminal_is_enough(root: Path, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(CRASH.replace("a.py", "ä.py"), encoding="utf-8")
    done = subprocess.run(
        [*CLI, "analyze", "run.log"],
        cwd=tmp_path,
        env={**environment(root), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.isascii()
    assert b"> 1 | g()\n" in done.stdout.replace(b"\r\n", b"\n")
    assert done.stderr == b""
