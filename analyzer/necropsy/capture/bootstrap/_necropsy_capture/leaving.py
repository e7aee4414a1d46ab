"""SIGTERM while something is recorded: flush, then die of it as the job would have.

Nothing is done where the job has a handler of its own, and only as long as there is something to flush. Python runs a
handler between two bytecodes of the main thread, which may never come when that thread waits in C (a hung collective):
a thread is woken by the signal itself and lets it kill the process when the flush has not ended in time.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from contextlib import suppress
from typing import Any

from _necropsy_capture.process import Process

GRACE = 5.0  # seconds; torchrun and Slurm wait 30 before SIGKILL


class Termination:
    """`arm` while there is something to flush, `disarm` afterwards."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._armed = False
        self._pipe: tuple[int, int] | None = None
        os.register_at_fork(after_in_child=self.disarm)

    def arm(self) -> None:
        """Take SIGTERM over, if nobody has and this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        signal.signal(signal.SIGTERM, self._handle)
        self._armed = True
        self._watch()

    def disarm(self) -> None:
        """Give it back."""
        if not self._armed:
            return
        self._armed = False
        with suppress(ValueError):  # not the main thread
            if signal.getsignal(signal.SIGTERM) == self._handle:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if self._pipe is not None and self._process.mine:
                signal.set_wakeup_fd(-1)
                os.write(self._pipe[1], b"\0")  # the thread ends
            elif self._pipe is not None:
                signal.set_wakeup_fd(-1)

    def _watch(self) -> None:
        read, write = os.pipe()
        os.set_blocking(write, False)
        before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        if before != -1:  # an event loop has its own
            signal.set_wakeup_fd(before)
            os.close(read)
            os.close(write)
            return
        self._pipe = read, write
        threading.Thread(target=self._wait, args=(read,), name="necropsy-signals", daemon=True).start()

    def _wait(self, read: int) -> None:
        while (number := os.read(read, 1)) not in (b"", b"\0"):
            if number[0] == signal.SIGTERM:
                threading.Event().wait(GRACE)
                _die()

    def _handle(self, number: int, frame: Any) -> None:
        self._process.note("process", "signal", number=number)
        self._process.leave()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def _die() -> None:
    """Let SIGTERM do what it does by default; `signal.signal` works in the main thread only."""
    ctypes.CDLL(None).signal(int(signal.SIGTERM), None)
    os.kill(os.getpid(), signal.SIGTERM)
