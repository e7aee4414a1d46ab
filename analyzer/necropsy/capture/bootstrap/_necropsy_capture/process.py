"""One Python process of the job, as collectors see it: where to write, what to note, whom to tell, when it ends.

Everything noted goes into `process-[rankN-]PID.json` of the run folder, which appears when a collector starts and is
replaced whole with every note, so that a process killed at any moment leaves a readable file.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

SCHEMA = "necropsy-process/1"
MOST_NOTES = 200  # a collector that notes without end must not fill the disk
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


class Process:
    """`settings` is what the launcher wrote; options of collectors stand beside `folder` and `collect`."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.folder = str(settings["folder"])
        self.collect = tuple(settings["collect"])
        self.pid = os.getpid()
        self.rank = _rank()
        self._notes: list[dict[str, Any]] = []
        self._listeners: dict[str, list[Callable[[], None]]] = {}
        self._leaving: list[tuple[str, Callable[[], None]]] = []
        self._left = False
        self._began = time.time()
        os.register_at_fork(after_in_child=self._forked)

    @property
    def mine(self) -> bool:
        """Whether this is still the process it was made in; a forked child (a DataLoader worker) collects nothing."""
        return self.pid == os.getpid()

    def option(self, name: str, default: Any) -> Any:
        """An option of the launcher, or the default."""
        value = self.settings.get(name)
        return default if value is None else value

    def path(self, stem: str, suffix: str) -> str:
        """A file of this process in the run folder: `trace-rank3-712.json.gz`."""
        rank = "" if self.rank is None else f"rank{self.rank}-"
        with suppress(OSError):  # a job template may have been given a folder that nobody made
            os.makedirs(self.folder, exist_ok=True)
        return os.path.join(self.folder, f"{stem}-{rank}{self.pid}{suffix}")

    def note(self, collector: str, what: str, **facts: Any) -> None:
        """Write down what a collector did or could not do: a word (`started`), and plain values."""
        if self.mine and len(self._notes) < MOST_NOTES:
            self._notes.append({"time": round(time.time(), 3), "collector": collector, "what": what, **facts})
            self.save()

    def set_variables(self, collector: str, values: dict[str, str]) -> None:
        """Set environment variables that the user has not set; both are noted."""
        new = {name: value for name, value in values.items() if name not in os.environ}
        os.environ.update(new)
        self.note(collector, "variables", set=new, kept=sorted(set(values) - set(new)))

    @contextmanager
    def guard(self, collector: str) -> Iterator[None]:
        """Keep a collector's failure from the job; it is noted. KeyboardInterrupt and SystemExit pass."""
        try:
            yield
        except Exception as error:
            with suppress(Exception):
                trace = traceback.format_exc(limit=-4)
                self.note(collector, "failed", error=f"{type(error).__name__}: {error}"[:500], traceback=trace[-2000:])

    def on(self, event: str, function: Callable[[], None]) -> None:
        """Call a function at an event: `recording` (the profiler has started), `recorded` (it is about to stop)."""
        self._listeners.setdefault(event, []).append(function)

    def emit(self, event: str) -> None:
        """Tell an event to those who asked."""
        for function in self._listeners.get(event, ()):
            with self.guard(event):
                function()

    def at_exit(self, collector: str, function: Callable[[], None]) -> None:
        """Call a function when the process ends in any way that Python sees, last registered first."""
        if not self._leaving:
            import atexit

            atexit.register(self.leave)
        self._leaving.append((collector, function))

    def leave(self) -> None:
        """Flush what collectors hold; only the first call does anything."""
        if self._left or not self.mine:
            return
        self._left = True
        for collector, function in reversed(self._leaving):
            with self.guard(collector):
                function()
        with suppress(Exception):
            self.save()

    def save(self) -> None:
        """Write the process file; a full disk is no reason to fail."""
        if not self.mine:
            return
        data = {
            "schema": SCHEMA,
            "pid": self.pid,
            "parent": os.getppid(),
            "rank": self.rank,
            "began": round(self._began, 3),
            "program": os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else "",
            "versions": _versions(),
            "devices": _devices(),
            "notes": self._notes,
        }
        path = self.path("process", ".json")
        with suppress(OSError):
            with open(path + ".tmp", "w", encoding="utf-8", errors="backslashreplace") as file:
                json.dump(data, file, indent=1, default=str)
            os.replace(path + ".tmp", path)

    def _forked(self) -> None:
        self._left = True
        self._listeners = {}
        self._leaving = []


def _rank() -> int | None:
    for name in _RANKS:
        value = os.environ.get(name, "")
        if value.isdigit() and (name != "SLURM_PROCID" or os.environ.get("SLURM_NTASKS", "1") != "1"):
            return int(value)
    return None


def _versions() -> dict[str, str]:
    """Versions of what is loaded; nothing is imported to ask."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("torch", "triton", "tensorrt", "tensorrt_rtx", "nvtx", "numpy"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    version_of_torch: Any = sys.modules.get("torch.version")
    for name in ("cuda", "hip"):
        value = getattr(version_of_torch, name, None)
        if value:
            found[name] = str(value)
    return found


def _devices() -> list[dict[str, Any]]:
    """GPUs, if this process has begun to use them; a context is never made to ask."""
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    with suppress(Exception):
        if cuda is not None and cuda.is_initialized():
            number = cuda.current_device()
            device = cuda.get_device_properties(number)
            return [{"index": number, "name": device.name, "bytes": device.total_memory}]
    return []
