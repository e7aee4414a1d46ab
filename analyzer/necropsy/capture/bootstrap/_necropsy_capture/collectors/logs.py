"""The log of torch's compiler in a file of its own per process, with nothing added to the job's stderr.

TORCH_LOGS prints to stderr, TORCH_LOGS_OUT (torch 2.3) to a file *and* to stderr, and an artifact that a release does
not know makes `import torch` fail. So neither is set: artifacts are switched on in torch's own registry after the
import, torch's handlers keep printing what they would have printed, and handlers of ours write the rest to
`torch-logs-[rankN-]PID.log`. Whoever set TORCH_LOGS gets what he asked for, on stderr, which is in the run folder, too.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from typing import Any

from _necropsy_capture.process import Process

ARTIFACTS = ("graph_breaks", "recompiles", "perf_hints")
MOST_BYTES = 256 << 20  # of one process; the fusion log of a large model has been seen to reach hundreds of megabytes


class _Limited(logging.FileHandler):
    """A file that appears with its first line and stops growing at a bound, which is told."""

    def __init__(self, path: str, process: Process, most: int) -> None:
        super().__init__(path, mode="a", encoding="utf-8", delay=True, errors="backslashreplace")
        self._process = process
        self._left = most

    def emit(self, record: logging.LogRecord) -> None:
        if self._left <= 0 or not self._process.mine:
            return
        self._left -= len(str(record.msg)) + 200
        with suppress(Exception):  # a full disk is no reason to print a traceback into the job's stderr
            super().emit(record)
        if self._left <= 0:
            why = f"{os.path.basename(self.baseFilename)} reached its bound"
            self._process.note("logs", "limit", why=why)

    def handleError(self, record: logging.LogRecord) -> None:
        """Nothing: `logging` would print a traceback."""


def _as_before(record: logging.LogRecord) -> bool:
    """What torch prints when nobody asks: warnings and worse."""
    return record.levelno >= logging.WARNING


def start(process: Process) -> None:
    """Switch the artifacts on that this release knows."""
    if os.environ.get("TORCH_LOGS"):
        process.note("logs", "left", why="TORCH_LOGS is set: it prints to stderr as the job wants it")
        return
    internal: Any = sys.modules["torch._logging._internal"]
    registry, state = internal.log_registry, internal.log_state
    wanted = process.option("artifacts", ARTIFACTS)
    known = [name for name in wanted if name in registry.artifact_names]
    path = process.path("torch-logs", ".log")
    file = _Limited(path, process, int(process.option("log_bytes", MOST_BYTES)))
    file.setLevel(logging.DEBUG)
    for name in registry.get_log_qnames():
        logger = logging.getLogger(name)
        for handler in logger.handlers:
            handler.addFilter(_as_before)
            if file.formatter is None and handler.formatter is not None:
                file.setFormatter(handler.formatter)
        logger.addHandler(file)
    for name in known:
        state.enable_artifact(name)
    for name in registry.get_artifact_log_qnames():
        internal.configure_artifact_log(logging.getLogger(name))
    unknown = [name for name in wanted if name not in known]
    process.note("logs", "started", artifacts=known, unknown=unknown, file=os.path.basename(path))
