"""Hardware counters of the kernels that mattered, from Nsight Compute in a second run of the command.

ncu stands outside, and profiles what is launched between `cudaProfilerStart` and `cudaProfilerStop` only
(`--profile-from-start off`). Here these are called around steps of the steady state, the same ones that were recorded
before, by one process: kernels of several ranks would wait for each other. Then the processes that count steps end, as
if they had succeeded: nothing that comes after is wanted, and no checkpoint is written over.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from _necropsy_capture.process import Process
from _necropsy_capture.steps import Steps

OVER = "window-over"  # the file by which the profiled rank tells the others that they may end
PATIENCE = 1800.0  # seconds for which they wait: each launch is repeated tens of times


class Counters:
    """The window that ncu looks through."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._first = int(process.option("first", 0))
        self._window = int(process.option("window", 1))
        self._profiles = process.rank in (None, 0)
        self._open = False
        self._steps = Steps(process, self._boundary)

    def watch(self) -> None:
        """Count steps from now on."""
        self._steps.watch()

    def _boundary(self, step: int) -> None:
        if step < self._first:
            return
        if step >= self._first + self._window:
            self._end(step)
        elif self._profiles and not self._open:
            self._open = True
            self._process.emit("recording")
            self._process.note("ncu", "window", step=step)
            _cudart().cudaProfilerStart()

    def _end(self, step: int) -> None:
        try:
            if self._profiles:
                self._close(step)
            else:
                self._wait()
        finally:  # whatever failed: nothing that comes after is wanted
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(0)

    def _close(self, step: int) -> None:
        try:
            torch: Any = sys.modules["torch"]
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            if self._open:
                _cudart().cudaProfilerStop()
                self._process.emit("recorded")
                self._process.note("ncu", "profiled", first=self._first, steps=step - self._first)
        finally:
            with open(os.path.join(self._process.folder, OVER), "w", encoding="ascii"):
                pass

    def _wait(self) -> None:
        """A rank that ended before the profiled one would take memory away that collectives read."""
        until = time.monotonic() + PATIENCE
        while not os.path.exists(os.path.join(self._process.folder, OVER)) and time.monotonic() < until:
            time.sleep(0.05)


def _cudart() -> Any:
    torch: Any = sys.modules["torch"]
    return torch.cuda.cudart()


def start(process: Process) -> None:
    """Wait for the steps."""
    Counters(process).watch()
