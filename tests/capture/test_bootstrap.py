"""What capture puts into the job's interpreter leaves the job as it is: names, paths, the user's own sitecustomize."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from necropsy.capture.plan import BOOTSTRAP, SETTINGS

PRINTS = "import sys; print([p for p in sys.path if 'bootstrap' in p], 'sitecustomize' in sys.modules)"
# Stands in for torch: quick to import, and what a collector that knows torch trips over.
FAKE_TORCH = "import os\nvalue = 1\nseen = os.environ.get('TORCH_FR_BUFFER_SIZE')\n"


def run(
    folder: Path, program: str, *paths: Path, collect: dict[str, list[str]] | None = None, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (BOOTSTRAP, *paths)))
    environment[SETTINGS] = json.dumps({"folder": str(folder / "run"), "collect": collect or {}})
    return subprocess.run(
        [sys.executable, *options, "-c", program],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def notes(folder: Path) -> list[dict[str, Any]]:
    (file,) = (folder / "run").glob("process-*.json")
    found: list[dict[str, Any]] = json.loads(file.read_text())["notes"]
    return found


def test_only_the_standard_library_is_imported() -> None:
    allowed = {*sys.stdlib_module_names, "_necropsy_capture", "sitecustomize"}
    late = {"torch", "nvtx", "tensorrt", "tensorrt_rtx"}  # inside functions, when the job has them
    for path in BOOTSTRAP.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))
        top = {id(node) for node in tree.body}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                for name in names:
                    first = name.split(".")[0]
                    assert first in allowed | (set() if id(node) in top else late), f"{path.name} imports {name}"


def test_nothing_of_it_is_left_on_the_path(tmp_path: Path) -> None:
    done = run(tmp_path, PRINTS)
    assert (done.stdout, done.stderr) == ("[] False\n", "")
    assert not (tmp_path / "run").exists()


def test_the_users_own_sitecustomize_is_run(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import sys; sys.own = __file__; raise_later = 1\n")
    done = run(tmp_path, "import sys, sitecustomize; print(sys.own == sitecustomize.__file__)", tmp_path / "own")
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_an_error_in_the_users_own_sitecustomize_is_told_as_ever(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("raise ValueError('mine')\n")
    done = run(tmp_path, "print('on')", tmp_path / "own")
    assert done.stdout == "on\n"
    assert "ValueError: mine" in done.stderr
    assert "Error in sitecustomize" in done.stderr


def test_user_modules_of_any_name_are_the_users(tmp_path: Path) -> None:
    names = ("parsers", "analyzer", "lsp", "necropsy", "process", "steps", "imports", "collectors", "bootstrap")
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"mine = {name!r}\n")
    program = f"print([__import__(n).mine for n in {names!r}] == list({names!r}))"
    assert run(tmp_path, program).stdout == "True\n"


@pytest.mark.parametrize("options", [("-I",), ("-S",), ("-E",)])
def test_isolated_interpreters_are_left_alone(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run(tmp_path, "print('on')", options=options, collect={"logs": ["torch"]})
    assert (done.stdout, done.stderr, done.returncode) == ("on\n", "", 0)


def test_collectors_that_fail_do_not_touch_the_job(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    collect = {name: ["torch"] for name in ("logs", "profiler", "marks", "memory", "nccl", "no_such_collector")}
    program = (
        "import torch; print(torch.value, torch.__spec__.loader is torch.__loader__, type(torch.__loader__).__name__)"
    )
    done = run(tmp_path, program, collect=collect)
    assert (done.stdout, done.stderr, done.returncode) == ("1 True SourceFileLoader\n", "", 0)
    failed = {n["collector"] for n in notes(tmp_path) if n["what"] == "failed"}
    assert {"logs", "profiler", "no_such_collector"} <= failed


def test_a_module_that_fails_to_import_fails_as_ever(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import no_such_library\n")
    program = (
        "import sys\ntry:\n    import torch\nexcept ModuleNotFoundError as e:\n    print(e.name)\n"
        "print('torch' in sys.modules)"
    )
    done = run(tmp_path, program, collect={"logs": ["torch"]})
    assert done.stdout == "no_such_library\nFalse\n"


def test_settings_that_make_no_sense_do_not_touch_the_job(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(BOOTSTRAP), SETTINGS: "{not json"}
    done = subprocess.run(
        [sys.executable, "-c", "print('on')"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("on\n", "")


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    program = (
        "import os, torch\npid = os.fork()\n"
        "if pid == 0:\n    import atexit; atexit._run_exitfuncs(); os._exit(0)\n"
        "os.waitpid(pid, 0); print('parent')"
    )
    done = run(tmp_path, program, collect={"memory": ["torch"], "marks": ["torch"]})
    assert done.stdout == "parent\n"
    assert len(list((tmp_path / "run").glob("process-*.json"))) == 1
