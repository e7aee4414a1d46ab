"""A logger that writes everything to a file, and passes on what the job's own logger would have shown.

Lines are as TensorRT's own logger prints them: `[11/30/2026-01:03:55] [TRT] [V] message`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

MOST_BYTES = 64 << 20  # of a verbose log; builds of large networks with many tactics write more


class LogFile:
    """The verbose copy, bounded."""

    def __init__(self, path: str, most: int = MOST_BYTES) -> None:
        self.path = path
        self._left = most
        self._file = open(path, "w", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115

    def write(self, severity: str, message: str) -> None:
        """One message."""
        if self._left <= 0:
            return
        line = f"[{time.strftime('%m/%d/%Y-%H:%M:%S')}] [TRT] [{severity[:1]}] {message}\n"
        self._left -= len(line)
        with suppress(OSError, ValueError):
            self._file.write(line)
            if self._left <= 0:
                self._file.write(f"... necropsy: more than {MOST_BYTES >> 20} MiB; the rest is not here\n")


def shared(trt: Any, file: LogFile | None) -> Any:
    """A class of loggers of this module of TensorRT's (`tensorrt` or `tensorrt_rtx`) that write to the file, if any."""

    class Shared(trt.ILogger):  # type: ignore[misc]
        """Stands for the job's logger where TensorRT takes one."""

        def __init__(self, own: Any) -> None:
            trt.ILogger.__init__(self)
            self.necropsy_own = own

        def log(self, severity: Any, message: str) -> None:
            if file is not None:
                file.write(severity.name, message)
            own = self.necropsy_own
            if own is None:
                return
            least = getattr(own, "min_severity", None)
            # TensorRT's own logger leaves it to its caller; one that the job wrote decides itself.
            if least is None or int(severity) <= int(least):
                own.log(severity, message)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.necropsy_own, name)

        def __setattr__(self, name: str, value: Any) -> None:
            if name == "necropsy_own":
                object.__setattr__(self, name, value)
            else:
                setattr(self.necropsy_own, name, value)

    return Shared
