"""The memory collector: begins with CUDA and not before, writes when memory runs out and at the end, fails alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.snapshot import cases

import necropsy.capture
from necropsy.api import analyze

BOOTSTRAP = Path(necropsy.capture.__file__).parent / "bootstrap"
# What of torch the collector touches, with a snapshot made beforehand; `use()` initialises CUDA.
TORCH = {
    "__init__.py": "__version__ = '2.11.0'\nfrom torch import cuda\n",
    "_C.py": "observers = []\ndef _cuda_attach_out_of_memory_observer(function): observers.append(function)\n",
    "cuda/__init__.py": (
        "queued = []\nready = False\n"
        "def _lazy_call(function): queued.append(function)\n"
        "def use():\n    global ready\n    ready = True\n    [function() for function in queued]\n"
        "def is_initialized(): return ready\n"
        "def device_count(): return 1\n"
        "def current_device(): return 0\n"
        "def get_device_properties(n): raise RuntimeError('no device')\n"
    ),
    "cuda/memory.py": (
        "import json, os\n"
        "def _record_memory_history(enabled, context, stacks, max_entries):\n"
        "    print('recording', enabled, context, stacks, max_entries)\n"
        "def _snapshot():\n"
        "    if os.environ.get('BROKEN'): raise RuntimeError('allocator backend without snapshots')\n"
        "    return json.load(open('snapshot.json'))\n"
        "def memory_stats(n): return {'allocated_bytes.all.peak': 7, 'allocation.all.allocated': 3, 'num_ooms': 1}\n"
    ),
}
REFUSED = """
import torch, torch._C
torch.cuda.use()
for _ in range(4):
    for observer in torch._C.observers:
        observer(0, 64 << 20, 80 << 30, 1 << 20)
raise SystemExit(3)
"""
HEALTHY = "import torch\ntorch.cuda.use()\n"
WITHOUT_CUDA = "import torch\n"


def run(folder: Path, program: str, **env: str) -> tuple[list[str], list[dict[str, Any]], str, int]:
    """Files, notes, output and status of a job under the collector."""
    for name, text in TORCH.items():
        path = folder / "packages" / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    cases()["fires-kept-results"].write(folder / "snapshot.json")
    (folder / "run").mkdir()
    settings = json.dumps({"folder": str(folder / "run"), "collect": {"memory": ["torch"]}})
    paths = os.pathsep.join((str(BOOTSTRAP), str(folder / "packages")))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, check=False, text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": paths, "NECROPSY_CAPTURE": settings, "PYTHONDONTWRITEBYTECODE": "1", **env},
    )  # fmt: skip
    notes: list[dict[str, Any]] = []
    for path in (folder / "run").glob("process-*.json"):
        notes += json.loads(path.read_text())["notes"]
    files = sorted(p.name for p in (folder / "run").iterdir() if not p.name.startswith("process-"))
    return files, notes, done.stdout + done.stderr, done.returncode


def test_a_refusal_is_written_when_it_comes(tmp_path: Path) -> None:
    files, notes, output, status = run(tmp_path, REFUSED)
    assert status == 3
    assert "recording all alloc python 50000" in output
    assert [f.rpartition("-")[0] for f in files] == ["memory-oom", "memory-oom2"]  # of four, the first two
    assert [n["what"] for n in notes] == ["started", "refused", "refused", "counted"]
    assert (notes[1]["asked"], notes[-1]["peak"]) == (64 << 20, 7)
    (finding,) = [f for f in analyze([str(tmp_path / "run" / files[0])]).findings if f.rule == "OOM009"]
    assert (finding.code[0].file.rpartition("/")[2], finding.code[0].line) == ("fit.py", 18)


def test_a_healthy_job_leaves_its_last_snapshot(tmp_path: Path) -> None:
    files, notes, _, status = run(tmp_path, HEALTHY)
    assert (status, [f.rpartition("-")[0] for f in files]) == (0, ["memory"])
    assert [n["what"] for n in notes] == ["started", "counted"]


def test_without_cuda_nothing_is_touched(tmp_path: Path) -> None:
    """A context made only to record would cost each DataLoader worker hundreds of megabytes."""
    files, notes, output, status = run(tmp_path, WITHOUT_CUDA)
    assert (files, notes, output, status) == ([], [], "", 0)


def test_an_allocator_without_snapshots_is_noted(tmp_path: Path) -> None:
    files, notes, _, status = run(tmp_path, REFUSED, BROKEN="1")
    assert (files, status) == ([], 3)
    assert {n["what"] for n in notes} >= {"started", "failed"}
