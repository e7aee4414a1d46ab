"""torch's profiler around a few steps of the steady state, with no line of the job changed.

The first `skip` steps are passed over, and up to `MOST_WAIT` more while the compiler still compiles; a job that goes on
compiling is recorded without Python's frames, of which the compiler makes millions. A job without steps (no optimizer,
no module) is recorded for some seconds once it uses a GPU. The job's own profiler comes first: it cannot run beside
another one.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from _necropsy_capture import later
from _necropsy_capture.process import Process
from _necropsy_capture.steps import Steps
from _necropsy_capture.window import Window, capturing, give_way

SKIP, STEPS = 2, 4  # and one step between them, in which the profiler warms up
MOST_WAIT = 5  # further steps; a job that compiles in each step has just that trouble
MOST_DISCARDED = 2  # recordings in whose first step something was compiled
PATIENCE = 30.0  # seconds without a step before time decides; models are built and compiled before the first one
BY_TIME = 3.0  # seconds recorded then
HINT = "--skip 0 begins with the second step, --skip -1 with the import of torch"


class Recorder:
    """Decides when to record."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._skip = int(process.option("skip", SKIP))
        self._window = Window(process, int(process.option("steps", STEPS)))
        self._steps = Steps(process, self._boundary)
        self._wait = bool(process.option("settle", True))
        self._compiled = 0
        self._ours = False
        self._undo = give_way(process, self._job_profiles)

    def watch(self) -> None:
        """Wait for steps, or begin at once where nothing is to be skipped."""
        self._process.at_exit("profiler", self._leave)
        self._steps.watch()
        if self._skip < 0:
            self._do(lambda: self._window.begin(0, warm=False))
            return
        later.after(PATIENCE, self._without_steps)
        if self._process.option("early", False):
            self._do(lambda: self._window.begin(0, warm=False, frames=False, early=True, ranges=False))

    def _boundary(self, step: int) -> None:
        if capturing():
            return
        if self._window.state == "new" or self._window.early:
            settled = self._settled()
            if step >= self._skip and (settled or not self._wait or step >= self._skip + MOST_WAIT):
                self._do(lambda: self._window.begin(step, frames=settled and self._window.discarded < MOST_DISCARDED))
            return
        self._do(lambda: self._window.boundary(step))
        if self._window.state == "over":
            self._finish()

    def _do(self, action: Any) -> None:
        self._ours = True
        try:
            action()
        except Exception:
            self._window.state = "over"  # noted once, not with every step
            self._finish()
            raise
        finally:
            self._ours = False

    def _settled(self) -> bool:
        """Whether nothing was compiled since the last question."""
        utils: Any = sys.modules.get("torch._dynamo.utils")
        compiled = 0
        if utils is not None:
            counters = utils.counters
            compiled = counters["stats"].get("unique_graphs", 0) + counters["frames"].get("total", 0)
        settled = compiled == self._compiled
        self._compiled = compiled
        return settled

    def _without_steps(self) -> None:
        """Called after `PATIENCE`, and again: time is the last resort."""
        if self._window.state != "new" or self._steps.count or not self._process.mine:
            return
        torch: Any = sys.modules["torch"]
        if torch.cuda.is_initialized() and not self._steps.optimizers and not self._steps.kind:
            frames = "torch._dynamo" not in sys.modules
            self._do(lambda: self._window.begin(0, warm=False, frames=frames, ranges=False))
            later.after(BY_TIME, lambda: self._do(lambda: self._window.end("no steps were seen: some seconds")))
        else:
            later.after(PATIENCE, self._without_steps)

    def _job_profiles(self) -> None:
        if self._ours:
            return
        if self._window.state == "new":
            self._process.note("profiler", "left", why="the job starts a profiler of its own")
        self._window.end("the job starts a profiler of its own")
        self._window.state = "over"
        self._finish()

    def _finish(self) -> None:
        self._steps.stop()
        self._undo()

    def _leave(self) -> None:
        if self._window.state == "new":
            seen = f"{self._steps.count} {self._steps.kind or 'optimizer'} steps were seen, {self._skip} are skipped"
            self._process.note(
                "profiler", "nothing", why=f"the process ended before a recording began: {seen}", hint=HINT
            )


def before(process: Process) -> None:
    """Keep Kineto's own messages (stages, probes, failures to ask for GPUs) out of the job's stderr."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")


def start(process: Process) -> None:
    """Watch for steps."""
    Recorder(process).watch()
