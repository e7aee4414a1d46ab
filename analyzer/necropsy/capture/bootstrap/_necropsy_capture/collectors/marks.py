"""Marks: while the profiler records, each line of the user's files is a range `necropsy:FILE:LINE` around its work.

With the option `nvtx` the lines are NVTX ranges from the import of torch to the end, for Nsight Compute and Nsight
Systems, which attach from outside.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from _necropsy_capture.marking.names import Project
from _necropsy_capture.marking.ranges import both, nvtx, profiled
from _necropsy_capture.marking.stacks import Enter
from _necropsy_capture.marking.unseen import hide
from _necropsy_capture.process import Process

AWAITS = ("torch",)


class Marks:
    """Starts and stops with the recording; every recording begins anew."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._way: Any = None
        self._parents: Any = None

    def start(self) -> None:
        """Mark lines from now on."""
        if self._way is None and self._process.mine:
            self._begin(both(nvtx(), profiled()) if self._process.option("nvtx", False) else profiled())

    def start_nvtx(self) -> None:
        """Mark lines as NVTX ranges from now on."""
        self._begin(nvtx())

    def _begin(self, enter: Enter) -> None:
        if sys.version_info >= (3, 12):
            from _necropsy_capture.marking.monitoring import Monitoring as Way
        else:
            from _necropsy_capture.marking.tracing import Tracing as Way
        hide()
        way = Way(Project(), enter)
        refusal = way.start()
        if refusal:
            self._process.note("marks", "refused", reason=refusal)
            return
        self._way = way
        self._process.note("marks", "started", way=type(way).__name__.lower())

    def stop(self) -> None:
        """Mark no more, and note what was."""
        way, self._way = self._way, None
        if way is None:
            return
        way.stop()
        facts: dict[str, Any] = {"lines": way.stacks.opened, "functions": len(way.stacks.codes())}
        if way.trouble:
            facts["ended"] = way.trouble
        if way.stacks.dropped:
            facts["beyond"] = sorted(way.stacks.dropped)[:20]
        self._process.note("marks", "stopped", **facts)

    def forked(self) -> None:
        """A child (a DataLoader worker) marks nothing. Open ranges are its parent's: not ended, not freed."""
        way, self._way = self._way, None
        if way is not None:
            self._parents = way
            way.stop(close=False)


def start(process: Process) -> None:
    """Wait for the recording."""
    marks = Marks(process)
    os.register_at_fork(after_in_child=marks.forked)
    process.at_exit("marks", marks.stop)
    if process.option("nvtx", False) and not {"profiler", "trace", "ncu"} & set(process.collect):
        marks.start_nvtx()
        return
    process.on("recording", marks.start)
    process.on("recorded", marks.stop)
