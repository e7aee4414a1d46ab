"""What the machine has: GPUs and driver by `nvidia-smi`, Nsight Compute and whether it may read counters."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

_PATIENCE: Final = 10.0  # seconds; a broken driver makes nvidia-smi hang
_PARAMETERS: Final = Path("/proc/driver/nvidia/params")
_CAP_SYS_ADMIN: Final = 21


def _asked(*command: str) -> str | None:
    """What a program prints, or None where it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def gpus() -> list[dict[str, str]]:
    """Name, memory and driver of each GPU; empty without a driver."""
    text = _asked("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    rows = [[cell.strip() for cell in line.split(",")] for line in (text or "").splitlines()]
    return [{"name": row[0], "memory": row[1], "driver": row[2]} for row in rows if len(row) == 3]


def driver_cuda() -> str:
    """The newest CUDA version that the driver can run, or ""."""
    found = re.search(r"CUDA Version:\s*([\d.]+)", _asked("nvidia-smi") or "")
    return found[1] if found else ""


def ncu() -> tuple[str, str] | None:
    """Path and version of Nsight Compute, or None."""
    path = shutil.which("ncu")
    if path is None:
        found = sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu")) if os.name == "posix" else []
        path = str(found[-1]) if found else None
    if path is None:
        return None
    version = re.search(r"Version ([\d.]+)", _asked(path, "--version") or "")
    return path, version[1] if version else ""


def ncu_sections(tool: str) -> tuple[str, ...]:
    """Identifiers of the sections that this Nsight Compute has; none where it does not tell."""
    text = _asked(tool, "--list-sections") or ""
    return tuple(dict.fromkeys(m[1] for m in re.finditer(r"^(\w+)\s+\S", text, re.MULTILINE)))


def ncu_filters_configurations(tool: str) -> bool:
    """Whether it can count launches by configuration (`--filter-mode`, since 2023)."""
    return "per-launch-config" in (_asked(tool, "--help") or "")


def counters_permitted() -> bool | None:
    """Whether this user may read performance counters; None where the driver does not say."""
    try:
        text = _PARAMETERS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    found = re.search(r"RmProfilingAdminOnly:\s*(\d)", text)
    if found is None:
        return None
    return found[1] == "0" or _may_administer()


def _may_administer() -> bool:
    """Whether the process has CAP_SYS_ADMIN, which the driver asks for."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    found = re.search(r"CapEff:\s*([0-9a-f]+)", status)
    return found is not None and bool(int(found[1], 16) >> _CAP_SYS_ADMIN & 1)
