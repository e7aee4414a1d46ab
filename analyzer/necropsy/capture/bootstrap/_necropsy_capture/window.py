"""One recording of torch's profiler, of whole steps, written to `trace-[rankN-]PID.json`.

The first step after `begin` only warms the profiler up (CUPTI takes seconds to start), the next ones are recorded. A
recording ends with its last step, when it has lasted long enough, when the job starts a profiler of its own, when the
process ends, and at bounds wherever the job is.

The bounds are there for Python frames (`with_stack`). Two million calls, 2.5 s of pure Python, took 3 GB of memory and
50 s to post-process on two slow cores, and made 500 MB of trace (torch 2.13). What counts is the time for which the
thread itself was busy. The compiler is pure Python: a recording with frames ends when it begins to compile. Without
frames it ends then if it holds steady steps, which the seconds of a compilation would only hide.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from _necropsy_capture import later
from _necropsy_capture.leaving import Termination
from _necropsy_capture.process import Process

ENOUGH_SECONDS = 5.0  # a recording ends with the step in which it has lasted so long,
ENOUGH_BUSY = 1.5  # or, with frames, in which its thread was busy for so long;
MOST_SECONDS = 30.0  # and in the middle of a step after that,
MOST_BUSY = 3.0  # or, with frames, that
STEADY_STEPS = 2
LOOK = 0.25  # seconds between looks
FREE_BYTES = 2 << 30  # on the run folder's disk


class Window:
    """`state` goes from "new" over "warming" and "recording" to "over"."""

    def __init__(self, process: Process, steps: int) -> None:
        self.state = "new"
        self._process = process
        self._steps = steps
        self._prof: Any = None
        self._first = 0
        self._done = 0
        self._steady = 0  # steps in a row in which nothing was compiled
        self._compiles = False
        self._began = 0.0
        self._busy = 0.0
        self._frames = False
        self.early = False  # recording what comes before the steps, to be given up for them
        self._clock = 0
        self._look: Any = None
        self.discarded = 0
        self._unregister: Callable[[], None] | None = None
        self._termination = Termination(process)

    def begin(
        self, step: int, *, warm: bool = True, frames: bool = True, early: bool = False, ranges: bool = True
    ) -> None:
        """Start with the step of that number, which is about to begin.

        `frames`: with Python's frames; `ranges`: with a range around each step. An `early` recording is given up when
        another one begins, and when it has lasted too long.
        """
        if self.early and self.state == "recording":
            self._give_up("steps begin")
        self._frames, self.early = frames, early
        free = os.statvfs(self._process.folder)
        if free.f_bavail * free.f_frsize < FREE_BYTES:
            self._process.note("profiler", "refused", why="less than 2 GiB are free on the run folder's disk")
            self.state = "over"
            return
        self._prof = _profile(self._process, frames)
        self._prof.record_steps = ranges
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
            self._prof.step()
            self._recording(step)
        elif self.state == "recording" and not self.early:
            self._done += 1
            self._steady = 0 if self._compiles else self._steady + 1
            self._compiles = False
            if self._done >= self._steps:
                self.end("enough steps")
            elif self._lasted() >= ENOUGH_SECONDS or (self._frames and self._was_busy() >= ENOUGH_BUSY):
                self.end("long enough")
            else:
                self._prof.step()

    def end(self, why: str) -> None:
        """Stop and write what was recorded; does nothing when nothing is."""
        state, self.state = self.state, "over"
        if state not in ("warming", "recording"):
            return
        lasted = self._lasted() if state == "recording" else 0.0
        self._let_go()
        result = _stop(self._prof)
        if state == "recording" and result is not None:
            self._write(result, why, lasted)
        elif state == "warming":
            self._process.note("profiler", "nothing", why=f"{why} while the profiler warmed up")
        self._prof = None
        self._termination.disarm()

    def _let_go(self) -> None:
        """Undo what was set up for the recording."""
        if self._look is not None:
            self._look.cancel()
            self._process.emit("recorded")
        if self._unregister is not None:
            self._unregister()
            self._unregister = None

    def _recording(self, step: int) -> None:
        self.state = "recording"
        self._first, self._done, self._steady = step, 0, 0
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._began, self._busy = time.monotonic(), time.clock_gettime(self._clock)
        self._process.at_exit("profiler", lambda: self.end("the process ended"))
        self._termination.arm()
        self._look = later.Watch(LOOK, self._too_long, self._bound)
        if self._process.option("settle", True):
            self._unregister = _before_compiling(self._process, self._compiling)
        self._process.note("profiler", "recording", step=step, frames=self._frames)
        self._process.emit("recording")

    def _lasted(self) -> float:
        return time.monotonic() - self._began

    def _was_busy(self) -> float:
        return time.clock_gettime(self._clock) - self._busy

    def _too_long(self) -> bool:
        """Asked by another thread."""
        return self._lasted() >= MOST_SECONDS or (self._frames and self._was_busy() >= MOST_BUSY)

    def _bound(self) -> None:
        if capturing():
            self._look = later.Watch(LOOK, self._too_long, self._bound)
            return
        if self.early:
            self._give_up(f"{MOST_SECONDS:g} s without steps")
        else:
            self.end(f"a bound of {MOST_SECONDS:g} s, or of {MOST_BUSY:g} s of Python")

    def _compiling(self) -> None:
        """The compiler begins: keep what there is, go on without frames, or wait for steps to come."""
        self._compiles = True
        if self.state != "recording":
            return
        if self._done if self._frames else self._steady >= STEADY_STEPS:
            self.end("the compiler began to compile")
        elif self._frames:
            self._discard()

    def _discard(self) -> None:
        self.discarded += 1
        self._give_up("the compiler began to compile in the first step")

    def _give_up(self, why: str) -> None:
        """Throw away what is being recorded; another recording may begin."""
        self.state, self.early = "new", False
        self._let_go()
        _stop(self._prof)
        self._prof = None
        self._termination.disarm()
        self._process.note("profiler", "discarded", why=why)

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


def capturing() -> bool:
    """Whether work is captured into a CUDA graph now: a synchronisation would spoil it."""
    torch: Any = sys.modules["torch"]
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def _action(name: str) -> Any:
    profiler: Any = sys.modules["torch.profiler"]
    return getattr(profiler.ProfilerAction, name)


def _profile(process: Process, frames: bool) -> Any:
    torch: Any = sys.modules["torch"]
    from importlib import import_module
    from inspect import signature

    profiler: Any = import_module("torch.profiler")
    # One cycle is recorded; without this torch 2.11 warns on the job's stderr that others would be dropped.
    keeps = {"acc_events": True} if "acc_events" in signature(profiler.profile).parameters else {}
    activity = profiler.ProfilerActivity
    activities = [activity.CPU]
    for device, name in (("cuda", "CUDA"), ("xpu", "XPU")):
        module = getattr(torch, device, None)
        # A context is never made for it, and a CPU job on a machine with a GPU is not slowed down. An early recording
        # is of a job that is expected to use the device, and begins before it does.
        used = module is not None and (module.is_initialized() or (process.option("early", False) and _there(module)))
        if used and hasattr(activity, name):
            activities.append(getattr(activity, name))
    return profiler.profile(
        activities=activities,
        record_shapes=True,
        with_stack=frames,
        profile_memory=bool(process.option("profile_memory", False)),
        schedule=lambda step: profiler.ProfilerAction.WARMUP,
        **keeps,
    )


def _there(module: Any) -> bool:
    return bool(module.is_available())


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


def _before_compiling(process: Process, function: Callable[[], None]) -> Callable[[], None] | None:
    """Call `function` when Dynamo begins to compile (torch 2.3 and newer, once Dynamo is loaded)."""
    module: Any = sys.modules.get("torch._dynamo.callback")
    handler = getattr(module, "callback_handler", None)
    if handler is None:
        return None

    wanted = [True]

    def begins(*_: Any) -> None:
        if wanted:
            with process.guard("profiler"):
                function()

    handler.register_start_callback(begins)
    return wanted.clear  # taken out of torch's list while torch goes through it, another's would be passed over


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
