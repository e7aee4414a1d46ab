"""Marks while a program runs: every line in its own range, whatever calls, raises, yields or switches threads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import necropsy.capture
from necropsy.api import Loaded
from necropsy.config import Config
from necropsy.evidence.traces import Traces
from necropsy.trace.marks import marked_lines
from necropsy.trace.profile import Moments

HERE = Path(__file__).parent / "marked"
BOOTSTRAP = Path(necropsy.capture.__file__).parent / "bootstrap"


def run(python: str, script: str, *args: str, cwd: Path = HERE) -> Any:
    """What a script prints as its last line."""
    env = {**os.environ, "PYTHONPATH": str(BOOTSTRAP), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([python, script, *args], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def interpreters() -> list[str]:
    """The one that runs the tests, and newer and older ones that work here (a shim without its version does not)."""
    found = [sys.executable]
    for version in ("3.10", "3.12", "3.13", "3.14"):
        path = shutil.which(f"python{version}")
        if path is not None and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            found.append(path)
    return found


@pytest.mark.parametrize("python", interpreters())
def test_the_innermost_range_is_the_line_that_runs(python: str) -> None:
    told = run(python, "watch.py")
    assert (told["refused"], told["ended"], told["wrong"]) == ("", "", [])
    assert {"handled", "closed", "resumed", "up", "several lines", "end"} <= set(told["seen"])
    assert told["left_open"] == []
    assert told["opened"] > 100
    assert told["marked_later"] == 0
    assert not told["tracing"]


def test_a_debugger_is_left_alone(tmp_path: Path) -> None:
    """Whoever watches lines already goes on doing so."""
    (tmp_path / "debugged.py").write_text(
        "import json, sys\n"
        "from _necropsy_capture.marking.names import Project\n"
        "from _necropsy_capture.marking.tracing import Tracing\n"
        "def watch(*_): return watch\n"
        "sys.settrace(watch)\n"
        "way = Tracing(Project(), None)\n"
        "refused = way.start()\n"
        "way.stop()\n"
        "still = sys.gettrace() is watch\n"
        "sys.settrace(None)\n"
        "print(json.dumps({'refused': refused, 'still': still}))\n",
        encoding="utf-8",
    )
    told = run(sys.executable, "debugged.py", cwd=tmp_path)
    assert "debugger" in told["refused"]
    assert told["still"]


def test_a_loop_over_elements_ends_its_own_marks_only(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text(
        "import json, sys\n"
        "from _necropsy_capture.marking import stacks\n"
        "from _necropsy_capture.marking.names import Project\n"
        "if sys.version_info >= (3, 12):\n"
        "    from _necropsy_capture.marking.monitoring import Monitoring as Way\n"
        "else:\n"
        "    from _necropsy_capture.marking.tracing import Tracing as Way\n"
        "stacks.MOST_OF_CODE = 100\n"
        "names = []\n"
        "def enter(name):\n"
        "    names.append(name)\n"
        "    return lambda *_: names.append('-')\n"
        "def long():\n"
        "    for i in range(1000):\n"
        "        i += 1\n"
        "def short():\n"
        "    return 1\n"
        "way = Way(Project(), enter)\n"
        "way.start()\n"
        "long()\n"
        "short()\n"
        "way.stop()\n"
        "print(json.dumps({'dropped': sorted(way.stacks.dropped), 'names': names, 'trouble': way.trouble}))\n",
        encoding="utf-8",
    )
    told = run(sys.executable, "long.py", cwd=tmp_path)
    assert (told["dropped"], told["trouble"]) == (["long"], "")
    assert told["names"].count("necropsy:long.py:15") <= 100
    assert "necropsy:long.py:17" in told["names"]
    assert told["names"].count("-") == len(told["names"]) / 2


def test_names_of_lines(tmp_path: Path) -> None:
    """Relative to the folder of the start; libraries and generated code have none."""
    (tmp_path / "lib" / "thing-1.0.dist-info").mkdir(parents=True)
    (tmp_path / "names.py").write_text(
        "import json, os, sys, sysconfig\n"
        "from os.path import abspath, join\n"
        "sys.path.append(abspath('lib'))\n"
        "from _necropsy_capture.marking.names import Project\n"
        "stdlib, packages = (sysconfig.get_path(n) for n in ('stdlib', 'purelib'))\n"
        "files = ['names.py', abspath('pkg/net.py'), '<string>', join(stdlib, 'json/decoder.py'),\n"
        "         join(packages, 'torch/x.py'), abspath('lib/thing.py'), '/tmp/torchinductor_me/ab/cab.py',\n"
        "         '/srv/teams/secret/a/train.py', abspath('.venv/lib/python3.11/site-packages/a.py')]\n"
        "lines = [Project().lines(compile('x', f, 'exec')) for f in files]\n"
        "print(json.dumps([None if line is None else line[3] for line in lines]))\n",
        encoding="utf-8",
    )
    env = {**os.environ, "PYTHONPATH": str(BOOTSTRAP), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "names.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [
        "necropsy:names.py:3", "necropsy:pkg/net.py:3", None, None, None, None, None, "necropsy:a/train.py:3", None,
    ]  # fmt: skip


def test_operators_of_a_real_job_are_on_their_lines(tmp_path: Path) -> None:
    """Forward, backward, optimizer, generator and comprehension; and the compiler sees no difference."""
    told = run(sys.executable, "learn.py", str(tmp_path / "trace.json"))
    assert told["trouble"] == ""
    assert told["plain"] == told["marked"]
    assert told["plain"]["graph_break"] >= 2
    p = Loaded([str(tmp_path / "trace.json")], Config()).evidence.get(Traces).profiles[0]
    r = p.rank
    source = (HERE / "learn.py").read_text(encoding="utf-8").splitlines()
    planted: dict[str, set[int]] = {}
    for number, text in enumerate(source, 1):
        for word in text.partition("  # ")[2].split():
            if word.startswith("aten::"):
                planted.setdefault(word, set()).add(number)
    for op, lines in planted.items():
        rows = np.flatnonzero(r.where(r.ops, op, exact=True))
        rows = rows[r.forward_of[rows] < 0] if op not in ("aten::cos",) else rows
        assert len(rows) >= 2, op
        m = Moments(p, r.user_frame_of_ops(rows), r.times_of_ops(rows), r.ops["end"][rows] - r.ops["start"][rows])
        assert {line for _, line, _ in marked_lines(m)} & lines, (op, marked_lines(m))
    backward = np.flatnonzero((r.forward_of >= 0) & r.where(r.ops, "aten::threshold_backward", exact=True))
    m = Moments(p, r.user_frame_of_ops(backward), r.times_of_ops(backward), np.ones(len(backward), np.int64))
    assert {line for _, line, _ in marked_lines(m)} == planted["aten::relu"]


NVTX = """
OPEN, SEEN = [], []
def push_range(name): OPEN.append(name); SEEN.append((len(OPEN), name))
def pop_range(): OPEN.pop()
"""


@pytest.mark.parametrize("package", [True, False])
def test_lines_as_nvtx_ranges(tmp_path: Path, package: bool) -> None:
    """From the import of torch to the end, for tools that attach from outside; without NVTX it is noted."""
    if package:
        (tmp_path / "nvtx.py").write_text(NVTX, encoding="utf-8")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "job.py").write_text(
        "import sys, torch\n"
        "def inner():\n"
        "    return len(nvtx.OPEN) if nvtx else 0\n"
        "nvtx = sys.modules.get('nvtx')\n"
        "print(inner())\n"
        "raise SystemExit(4)\n",
        encoding="utf-8",
    )
    (tmp_path / "run").mkdir()
    settings = {"folder": str(tmp_path / "run"), "collect": {"marks": ["torch"]}, "nvtx": True}
    env = {**os.environ, "PYTHONPATH": str(BOOTSTRAP), "NECROPSY_CAPTURE": json.dumps(settings)}
    done = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    (path,) = (tmp_path / "run").glob("process-*.json")
    notes = [n for n in json.loads(path.read_text())["notes"] if n["collector"] == "marks"]
    assert (done.returncode, done.stderr) == (4, "")
    if package:
        assert done.stdout == "2\n"  # line 5, and line 3 inside it
        assert [n["what"] for n in notes] == ["started", "stopped"]
        assert notes[1]["lines"] >= 4
    else:
        assert done.stdout == "0\n"
        assert [n["what"] for n in notes] == ["failed"]


def test_a_forked_child_marks_nothing_and_leaves_its_parents_ranges(tmp_path: Path) -> None:
    (tmp_path / "nvtx.py").write_text(NVTX, encoding="utf-8")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "job.py").write_text(
        "import os, sys, torch, nvtx\n"
        "def work():\n"
        "    seen = len(nvtx.SEEN)\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        for i in range(3):\n"
        "            i += 1\n"
        "        os._exit(0 if len(nvtx.OPEN) == 2 and len(nvtx.SEEN) == seen + 1 else 1)\n"
        "    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "sys.exit(work())\n",
        encoding="utf-8",
    )
    (tmp_path / "run").mkdir()
    settings = {"folder": str(tmp_path / "run"), "collect": {"marks": ["torch"]}, "nvtx": True}
    env = {**os.environ, "PYTHONPATH": str(BOOTSTRAP), "NECROPSY_CAPTURE": json.dumps(settings)}
    done = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
