"""One recording of torch's profiler, of whole steps, written to `trace-[rankN-]PID.json`.

The first step after `begin` only warms the profiler up (CUPTI takes seconds to start), the next ones are recorded. A
recording ends with its last step, when it has lasted long enough, when the job starts a profiler of its own, when the
process ends, and at the latest after `MOST_SECONDS` wherever the job is.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from _necropsy_capture import later
from _necropsy_capture.leaving import Termination
from _necropsy_capture.process import Process

ENOUGH_SECONDS = 5.0  # a recording ends with the step in which it has lasted so long
MOST_SECONDS = 30.0
FREE_BYTES = 2 << 30  # on the run folder's disk; an hour of Python frames fills any disk


class Window:
    """`state` goes from "new" over "warming" and "recording" to "over"."""

    def __init__(self, process: Process, steps: int) -> None:
        self.state = "new"
        self._process = process
        self._steps = steps
        self._prof: Any = None
        self._first = 0
        self._done = 0
        self._began = 0.0
        self._timer: Any = None
        self._termination = Termination(process)

    def begin(self, step: int, *, warm: bool = True) -> None:
        """Start with the step of that number, which is about to begin."""
        free = os.statvfs(self._process.folder)
        if free.f_bavail * free.f_frsize < FREE_BYTES:
            self._process.note("profiler", "refused", why="less than 2 GiB are free on the run folder's disk")
            self.state = "over"
            return
        with _quiet():
            self._prof = _profile(self._process)
            self._prof.step_num = step
            self._prof.schedule = lambda n: _action("WARMUP" if warm and n == step else "RECORD")
            self._prof.current_action = self._prof.schedule(step)
            self.state = "warming"
            self._prof.start()
        if not warm:
            self._recording(step)

    def boundary(self, step: int) -> None:
        """A step is over; the one of that number is about to begin."""
        if self.state == "warming":
            with _quiet():
                self._prof.step()
            self._recording(step)
        elif self.state == "recording":
            self._done += 1
            if self._done >= self._steps or time.monotonic() - self._began >= ENOUGH_SECONDS:
                self.end("enough steps" if self._done >= self._steps else "long enough")
            else:
                with _quiet():
                    self._prof.step()

    def end(self, why: str) -> None:
        """Stop and write what was recorded; does nothing when nothing is."""
        state, self.state = self.state, "over"
        if state not in ("warming", "recording"):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._process.emit("recorded")
        lasted = time.monotonic() - self._began if state == "recording" else 0.0
        result = _stop(self._prof)
        if state == "recording" and result is not None:
            self._write(result, why, lasted)
        elif state == "warming":
            self._process.note("profiler", "nothing", why=f"{why} while the profiler warmed up")
        self._prof = None
        self._termination.disarm()

    def _recording(self, step: int) -> None:
        self.state = "recording"
        self._first = step
        self._began = time.monotonic()
        self._process.at_exit("profiler", lambda: self.end("the process ended"))
        self._termination.arm()
        self._timer = later.after(MOST_SECONDS, lambda: self.end(f"a bound of {MOST_SECONDS:g} s"))
        self._process.note("profiler", "recording", step=step)
        self._process.emit("recording")

    def _write(self, result: Any, why: str, lasted: float) -> None:
        began = time.monotonic()
        path = self._process.path("trace", ".json")
        result.save(path + ".part")
        os.replace(path + ".part", path)
        self._process.note(
            "profiler",
            "recorded",
            file=os.path.basename(path),
            bytes=os.path.getsize(path),
            first=self._first,
            steps=self._done,
            seconds=round(lasted, 3),
            saving=round(time.monotonic() - began, 3),
            why=why,
        )


def _quiet() -> Any:
    caught = warnings.catch_warnings()
    caught.__enter__()
    warnings.simplefilter("ignore")
    return _Closing(caught)


class _Closing:
    """A context that was entered already."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __enter__(self) -> None:
        """Nothing more to do."""

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(None, None, None)


def _action(name: str) -> Any:
    profiler: Any = sys.modules["torch.profiler"]
    return getattr(profiler.ProfilerAction, name)


def _profile(process: Process) -> Any:
    torch: Any = sys.modules["torch"]
    from importlib import import_module

    profiler: Any = import_module("torch.profiler")
    activity = profiler.ProfilerActivity
    activities = [activity.CPU]
    for device, name in (("cuda", "CUDA"), ("xpu", "XPU")):
        module = getattr(torch, device, None)
        # A context is never made for it, and a CPU job on a machine with a GPU is not slowed down.
        if module is not None and hasattr(activity, name) and module.is_initialized():
            activities.append(getattr(activity, name))
    return profiler.profile(
        activities=activities,
        record_shapes=True,
        with_stack=True,
        profile_memory=bool(process.option("profile_memory", False)),
        schedule=lambda step: profiler.ProfilerAction.WARMUP,
    )


def _stop(prof: Any) -> Any:
    """Stop the profiler and give its result, without making Python objects of each event.

    `stop()` synchronises with the device first, which raises after an error on it; and before torch 2.5 it parses all
    events in Python, which takes minutes.
    """
    autograd: Any = sys.modules["torch.autograd"]
    if prof.step_rec_fn is not None:
        prof.step_rec_fn.__exit__(None, None, None)
        prof.step_rec_fn = None
    torch: Any = sys.modules["torch"]
    try:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
    except Exception:
        pass  # the job fails of it by itself
    return autograd._disable_profiler()


def give_way(process: Process, started: Callable[[], None]) -> Callable[[], None]:
    """Call `started` before the job starts a profiler of its own: there can only be one. Gives what undoes it."""
    module: Any = sys.modules["torch.autograd.profiler"]
    names = [name for name in ("_prepare_profiler", "_enable_profiler") if hasattr(module, name)]
    originals = {name: getattr(module, name) for name in names}

    def replace(name: str) -> None:
        original = originals[name]

        def instead(*args: Any, **kwargs: Any) -> Any:
            with process.guard("profiler"):
                started()
            return original(*args, **kwargs)

        setattr(module, name, instead)

    for name in names:
        replace(name)

    def undo() -> None:
        for name in names:
            setattr(module, name, originals[name])

    return undo
