"""What the job writes: passed on byte for byte, and kept in the run folder.

Where the launcher's own stream is a terminal, the job gets a terminal (progress bars, colours), else a pipe. Streams
that go to one place share one channel, so that their order is kept.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

SEGMENT: Final = 128 << 20  # bytes of a part of the kept output; the first and the last two are kept
_BLOCK: Final = 1 << 16


class Keep:
    """`output.log`, and `output.log.2`, ... once it is long: the beginning and the end are kept."""

    def __init__(self, folder: Path, segment: int = SEGMENT) -> None:
        self._folder = folder
        self._segment = segment
        self._number = 1
        self._size = 0
        self._file = open(self.path(1), "wb", buffering=0)  # noqa: SIM115
        self.lost = 0  # bytes of the middle

    def path(self, number: int) -> Path:
        """The part of that number."""
        return self._folder / ("output.log" if number == 1 else f"output.log.{number}")

    def write(self, data: bytes) -> None:
        """Keep some output; a full disk loses it, not the job."""
        with suppress(OSError, ValueError):
            self._file.write(data)
        self._size += len(data)
        if self._size >= self._segment and data.endswith(b"\n"):
            self._next()

    def _next(self) -> None:
        self._file.close()
        self._number += 1
        old = self.path(self._number - 2)
        if self._number > 3:
            with suppress(OSError):
                self.lost += old.stat().st_size
                old.unlink()
        self._size = 0
        with suppress(OSError):
            self._file = open(self.path(self._number), "wb", buffering=0)  # noqa: SIM115

    def close(self) -> None:
        """End the file; of a silent job none is left."""
        with suppress(OSError):
            self._file.close()
            if not self.path(1).stat().st_size:
                self.path(1).unlink()


class Channel:
    """One place that the job writes to: `job` is its end of it, `read` ours, `out` where everything goes."""

    def __init__(self, out: int, keep: Keep, *, whole_lines: bool) -> None:
        self.out = out
        self.terminal = os.isatty(out)
        self.open = True
        self.clean = True  # the last byte passed on ended a line
        self._keep = keep
        self._lines = whole_lines
        self._rest = b""
        self.read, self.job = _terminal(out) if self.terminal else os.pipe()

    def started(self) -> None:
        """The job has its end."""
        os.close(self.job)

    def pump(self) -> bool:
        """Pass on what is there; False at the end."""
        try:
            data = os.read(self.read, _BLOCK)
        except OSError as error:
            if error.errno != errno.EIO:  # a terminal that nobody has open any more
                raise
            data = b""
        if not data:
            self.close()
            return False
        self._keep_some(data)
        self.clean = data.endswith(b"\n")
        try:
            _write(self.out, data)
        except OSError:
            self.close()  # `| head` has gone: the job's next write fails as it would have
            return False
        return True

    def resize(self) -> None:
        """Give the job's terminal the size of the real one."""
        if self.terminal:
            with suppress(OSError, ImportError):
                _same_size(self.out, self.read)

    def close(self) -> None:
        """Nothing more comes."""
        if self.open:
            self.open = False
            os.close(self.read)
            if self._rest:
                self._keep.write(self._rest)

    def _keep_some(self, data: bytes) -> None:
        """Two channels are kept in one file by whole lines; a progress bar's carriage return ends one, too."""
        if not self._lines:
            self._keep.write(data)
            return
        data = self._rest + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) - end > _BLOCK:
            end = len(data)
        self._rest = data[end:]
        if end:
            self._keep.write(data[:end])


def channels(keep: Keep, out: int = 1, error: int = 2) -> Mapping[str, Channel]:
    """The job's stdout and stderr; the same channel where both go to one place."""
    if _same_place(out, error):
        one = Channel(out, keep, whole_lines=False)
        return {"stdout": one, "stderr": one}
    both = {name: Channel(fd, keep, whole_lines=True) for name, fd in (("stdout", out), ("stderr", error))}
    return both


def _same_place(one: int, other: int) -> bool:
    a, b = os.fstat(one), os.fstat(other)
    return (a.st_dev, a.st_ino, a.st_rdev) == (b.st_dev, b.st_ino, b.st_rdev)


def _write(out: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(out, view) :]
        except BlockingIOError:  # somebody has made the terminal non-blocking
            import select

            select.select([], [out], [])


def _terminal(out: int) -> tuple[int, int]:
    """A pair of terminals (ours, the job's) of the same size and settings that changes no byte on its way."""
    import pty
    import termios

    ours, job = pty.openpty()
    with suppress(OSError, termios.error):
        settings = termios.tcgetattr(out)
        settings[1] &= ~termios.OPOST  # the real one ends lines with a carriage return
        termios.tcsetattr(job, termios.TCSANOW, settings)
        _same_size(out, ours)
    return ours, job


def _same_size(real: int, ours: int) -> None:
    import fcntl
    import termios

    size = fcntl.ioctl(real, termios.TIOCGWINSZ, b"\0" * 8)
    fcntl.ioctl(ours, termios.TIOCSWINSZ, size)
