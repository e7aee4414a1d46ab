"""The run folder: made before the job, described by `manifest.json`, which is rewritten when the job has ended.

    {"schema": "necropsy-capture/1", "command": ["python", "train.py"], "cwd": "/home/trainer/projects/vision",
     "why": "slow", "collect": ["logs", "profiler"], "status": 0, "seconds": 41.2, "environment": {...}, ...}

Only variables that steer libraries and launchers are written down, and none whose name hints at a secret.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import necropsy
from necropsy.capture.job import Ended
from necropsy.capture.plan import SETTINGS, Plan

SCHEMA: Final = "necropsy-capture/1"
MANIFEST: Final = "manifest.json"
_STEERS: Final = re.compile(
    r"(?:CUDA|NCCL|TORCH|PYTORCH|TRITON|OMP|MKL|OPENBLAS|KINETO|NVIDIA_VISIBLE|CUBLAS|CUDNN|HIP|ROCR|GLOO|UCX|FI|ACCELERATE"
    r"|FSDP|DEEPSPEED|SLURM_(?:JOB_ID|NTASKS|PROCID|NNODES|NODEID|LOCALID)|TENSORRT|TRT|XLA|MALLOC|LD_PRELOAD"
    r"|NECROPSY)(?:_|$)|(?:LOCAL_|GROUP_|NODE_)?RANK$|(?:LOCAL_)?WORLD_SIZE$|PYTHON(?:FAULTHANDLER|MALLOC|OPTIMIZE"
    r"|UNBUFFERED|HASHSEED|NOUSERSITE|DEVMODE|TRACEMALLOC)$"
)
_SECRET: Final = re.compile(
    r"(?i)token(?!iz)|secret|passw|credential|(?:^|[-_])(?:key|auth|pwd)(?:$|[-_=])|api[-_]?key"
)
_TASKS: Final = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
_LONGEST: Final = 300  # characters of a variable
_IN_URL: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")


class FolderError(Exception):
    """The run folder cannot be used; the text is one sentence."""


def default_folder(environment: Mapping[str, str]) -> str:
    """A name for a run that was given none: `run-20261130-091502`, the same for all tasks of a Slurm job."""
    job = environment.get("SLURM_JOB_ID", "")
    return f"run-{job}" if job.isdigit() else time.strftime("run-%Y%m%d-%H%M%S")


def task(environment: Mapping[str, str]) -> int | None:
    """The number of this launcher where a job starts several (`srun necropsy capture ...`), or None if it is alone."""
    for number, count in _TASKS:
        if environment.get(number, "").isdigit() and environment.get(count, "").isdigit():
            return int(environment[number]) if int(environment[count]) > 1 else None
    return None


def make(path: Path) -> None:
    """Make the folder. Raises `FolderError` where there is something in it: two runs in one folder are one mess."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise FolderError(f"{path} is not empty; name another folder with --out, or remove it")
    except OSError as error:
        raise FolderError(f"cannot write to {path}: {error.strerror}") from error


class Manifest:
    """Writes `manifest.json`; `passes` are the runs of the command, the first of which counts."""

    def __init__(self, plan: Plan, environment: Mapping[str, str]) -> None:
        self._path = Path(plan.folder) / MANIFEST
        self._data: dict[str, Any] = {
            "schema": SCHEMA,
            "necropsy": necropsy.__version__,
            "command": without_secrets(plan.command),
            "cwd": os.getcwd(),
            "why": plan.why,
            "collect": list(plan.collect),
            "options": dict(plan.options),
            "variables": {k: v for k, v in plan.variables.items() if k not in (SETTINGS, "PYTHONPATH")},
            "kept": list(plan.kept),
            "environment": steering(environment),
            "platform": platform.platform(),
            "launcher": {"python": platform.python_version(), "terminal": sys.stdout.isatty()},
            "passes": [],
        }

    def write(self) -> None:
        """Write it; it appears whole or not at all."""
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self._data, indent=1), encoding="utf-8", errors="backslashreplace")
        os.replace(part, self._path)

    def add(self, **facts: Any) -> None:
        """Add or replace facts, and write."""
        self._data |= facts
        self.write()

    def ended(self, name: str, folder: str, run: Ended) -> None:
        """Add a run of the command, and write."""
        self._data["passes"].append(
            {
                "name": name,
                "folder": folder,
                "status": run.status,
                "signal": run.signal,
                "began": round(run.began, 3),
                "seconds": round(run.ended - run.began, 3),
                **({"lost": run.lost} if run.lost else {}),
                **({"trouble": run.trouble} if run.trouble else {}),
            }
        )
        self.write()


def steering(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that steer libraries and launchers, without what may be secret."""
    chosen = {k: v for k, v in sorted(environment.items()) if _STEERS.match(k) and not _SECRET.search(k)}
    chosen.pop(SETTINGS, None)
    return {k: _IN_URL.sub("***", v)[:_LONGEST] for k, v in chosen.items()}


def without_secrets(command: Sequence[str]) -> list[str]:
    """The command with values hidden whose option hints at a secret."""
    shown: list[str] = []
    hide = False
    for word in command:
        name, equals, _ = word.partition("=")
        if hide and not word.startswith("-"):
            word, hide = "***", False
        elif word.startswith("-") or equals:
            hide = bool(_SECRET.search(name)) and not equals
            if equals and _SECRET.search(name):
                word = f"{name}=***"
        else:
            hide = False
        shown.append(_IN_URL.sub("***", word))
    return shown


def processes(folder: Path) -> list[dict[str, Any]]:
    """What the job's processes wrote down so far, by process id; unreadable files are left out."""
    found = []
    for path in sorted(folder.glob("**/process-*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(data, dict) and isinstance(data.get("notes"), list):
            found.append(data)
    return found


def notes(folder: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(process, note) of all processes, in the order of time."""
    pairs = [(p, n) for p in processes(folder) for n in p["notes"] if isinstance(n, dict)]
    return sorted(pairs, key=lambda pair: float(pair[1].get("time") or 0))


def size(folder: Path) -> tuple[int, int]:
    """Files and bytes of the folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return len(files), sum(path.stat().st_size for path in files)
