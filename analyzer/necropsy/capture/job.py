"""Runs a command as if nobody stood between: streams, signals and status are those of the command alone.

The job stays in the launcher's process group and keeps its standard input and its terminal: Ctrl-C, Ctrl-Z, Ctrl-\\ and
job control of the shell reach it by themselves. A signal that only the launcher gets is passed on, once. When the
launcher is killed outright, the job is killed with it, as it would have been in its place.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from necropsy.capture.canary import SIGNALS, Canary
from necropsy.capture.channels import Channel, Keep, channels

_TICK: Final = 0.5  # seconds between looks at what collectors do
_SILENCE: Final = 0.3  # seconds without output after the end; a child left behind may hold the stream open for ever
_PDEATHSIG: Final = 1
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126


class Ended(Struct, frozen=True):
    """How a run ended: `status` is what a shell shows (128+n for a signal), times in seconds since 1970."""

    status: int
    signal: int
    began: float
    ended: float
    trouble: str = ""  # why the command could not be started
    lost: int = 0  # bytes of output in the middle that were not kept


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    tick: Callable[[bool], None] | None = None,
    out: tuple[int, int] = (1, 2),
) -> Ended:
    """Run `command`, keep its output in `folder`. `tick` is called now and then: may a line be printed now?

    `out` are the file descriptors that its stdout and stderr are passed on to.
    """
    began = time.time()
    keep = Keep(folder)
    canary = Canary()
    streams = channels(keep, *out)
    try:
        with _Signals() as signals:
            try:
                job = subprocess.Popen(
                    list(command),
                    env=dict(environment),
                    stdout=streams["stdout"].job,
                    stderr=streams["stderr"].job,
                    close_fds=False,  # a launcher's (PMI_FD) or a shell's must reach the job
                    preexec_fn=_die_with_the_launcher(),  # noqa: PLW1509 - there is no other thread
                )
            except OSError as error:
                status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
                return Ended(status, 0, began, time.time(), f"{command[0]}: {error.strerror}")
            for stream in set(streams.values()):
                stream.started()
            _attend(job, list(dict.fromkeys(streams.values())), signals, canary, tick)
    finally:
        canary.close()
        keep.close()
    code = job.returncode
    return Ended(128 - code if code < 0 else code, max(0, -code), began, time.time(), lost=keep.lost)


def _attend(
    job: subprocess.Popen[bytes],
    streams: list[Channel],
    signals: _Signals,
    canary: Canary,
    tick: Callable[[bool], None] | None,
) -> None:
    """Pass on output and signals until the job has ended and is silent."""
    with selectors.DefaultSelector() as selector:
        selector.register(signals.fd, selectors.EVENT_READ)
        for stream in streams:
            selector.register(stream.read, selectors.EVENT_READ, stream)
        while True:
            over = job.poll() is not None
            events = selector.select(_SILENCE if over else _TICK)
            for key, _ in events:
                stream = key.data
                if stream is None:
                    for number in signals.arrived():
                        _pass_on(number, job, streams, canary)
                elif not stream.pump():
                    selector.unregister(key.fd)
            if over and (not any(s.open for s in streams) or not any(key.data for key, _ in events)):
                break
            if tick is not None and not over:
                tick(all(stream.clean for stream in streams))
    for stream in streams:
        stream.close()


def _pass_on(number: int, job: subprocess.Popen[bytes], streams: list[Channel], canary: Canary) -> None:
    if number == signal.SIGWINCH:
        for stream in streams:
            stream.resize()
    elif number not in SIGNALS or canary.group(number):
        return
    if job.poll() is None:
        with suppress(ProcessLookupError):
            os.kill(job.pid, number)


class _Signals:
    """Notes signals by a pipe instead of acting on them; those that are ignored stay so (nohup)."""

    def __enter__(self) -> _Signals:
        self.fd, self._write = os.pipe()
        os.set_blocking(self._write, False)
        os.set_blocking(self.fd, False)
        self._before: dict[int, Any] = {}
        for number in (*SIGNALS, signal.SIGCHLD, signal.SIGWINCH):
            handler = signal.getsignal(number)
            if handler is not signal.SIG_IGN:
                self._before[number] = handler
                signal.signal(number, lambda *_: None)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(self, *error: object) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        os.close(self.fd)
        os.close(self._write)

    def arrived(self) -> bytes:
        """The numbers of signals since the last question."""
        with suppress(BlockingIOError):
            return os.read(self.fd, 4096)
        return b""


def _die_with_the_launcher() -> Callable[[], None] | None:
    """What asks Linux to kill the job if the launcher is killed; None where there is no such thing."""
    import ctypes

    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return lambda: prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
