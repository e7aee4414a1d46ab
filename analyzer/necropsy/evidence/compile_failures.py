"""Frames and kernels that torch.compile or Triton could not compile."""

from __future__ import annotations

import re
from typing import ClassVar, Final

from necropsy_parsers.messages.compile_failure import CompileFailure
from necropsy_parsers.records import Record

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON
from necropsy.evidence._twice import STREAM

ALIKE_MAX: Final = 50  # rows kept of one failure in one process
ROWS_MAX: Final = 5_000
_NUMBER: Final = re.compile(r"0x[0-9a-f]+|\d+")


class CompileFailures(Table[CompileFailure]):
    """One row a failure; of many alike ones in one process the first fifty."""

    name = "compile_failures"
    row = CompileFailure
    accepts = (CompileFailure,)
    formats = ("log", "elastic_error_file", "torch_trace")
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "class that was raised, without its module",
        "backend": "name of the backend that failed, where told",
        "error": "class of what the compiler met",
        "reason": "its first line",
        "text": "all that the failure says",
        "operator": "operator being lowered, or run on fake tensors",
        "kernel": "Triton kernel that a worker was compiling",
        "command": "command of the host compiler",
        "output": "what the host compiler printed",
        "frame": "function left to run eagerly, where the error was suppressed",
        "frames": "the user's stack, outermost first",
        "raised": "the innermost frame of the traceback",
        "through": "torch.compile was at work; false for a Triton kernel of the user's own",
        "from_exception": "an exception said it, not an entry of the log",
    }

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[tuple[str, str, str, int | None], int] = {}

    def add(self, record: Record) -> None:
        """Keep a failure if it is among the first of its like."""
        assert isinstance(record, CompileFailure)
        frame = record.frame.function if record.frame else ""
        key = (record.kind, _NUMBER.sub("0", record.reason)[:200], frame, record.origin.rank)
        alike = self._kept[key] = self._kept.get(key, 0) + 1
        if alike <= ALIKE_MAX and len(self.rows) < ROWS_MAX:
            self.rows.append(record)

    def finish(self) -> None:
        """Leave out what a structured log tells of failures that a text log tells, too, and better."""
        said = {(r.kind, r.reason) for r in self.rows if r.origin.stream != STREAM}
        self.rows = [r for r in self.rows if r.origin.stream != STREAM or (r.kind, r.reason) not in said]
