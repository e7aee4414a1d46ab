"""Tells a signal to the whole process group from one to the launcher alone.

Ctrl-C in a terminal, `kill -- -PGID` and `timeout` reach the job as well as the launcher: passing such a signal on
would deliver it twice. `kill PID` and supervisors reach the launcher only: it must be passed on. The sender's details
do not say which it was: a small process in the same group, which only waits for signals, says whether it got one, too.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from typing import Final

SIGNALS: Final = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
_PATIENCE: Final = 0.1  # seconds that the other process may take to say so
_CHECK: Final = 1.0  # seconds between looks whether the launcher still lives


class Canary:
    """Started before the job and before any thread."""

    def __init__(self) -> None:
        read, write = os.pipe()
        launcher = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _wait(write, launcher)
        os.close(write)
        os.set_blocking(read, False)
        self._read = read

    def group(self, number: int) -> bool:
        """Whether the signal of that number went to the whole group."""
        while select.select([self._read], [], [], _PATIENCE)[0]:
            heard = os.read(self._read, 1)
            if not heard:
                return False
            if heard[0] == number:
                return True
        return False

    def close(self) -> None:
        """End the other process."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        os.close(self._read)


def _wait(write: int, launcher: int) -> None:
    """The other process: write down each signal until the launcher is gone."""
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        while os.getppid() == launcher:
            told = signal.sigtimedwait(SIGNALS, _CHECK)
            if told is not None:
                os.write(write, bytes([told.si_signo]))
    finally:
        os._exit(0)
