"""Functions that torch.compile left uncompiled."""

from __future__ import annotations

from typing import ClassVar, Final

from necropsy_parsers.messages.frame_skipped import FrameSkip
from necropsy_parsers.records import Record

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON

ALIKE_MAX: Final = 20  # rows kept of skips of one function in one process
ROWS_MAX: Final = 10_000


class FrameSkips(Table[FrameSkip]):
    """One row a skipped frame; of many alike ones in one process the first twenty."""

    name = "frame_skips"
    row = FrameSkip
    accepts = (FrameSkip,)
    formats = ("log", "elastic_error_file", "torch_trace")
    supply = "the log of a run with TORCH_LOGS=dynamo,graph_breaks"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "loop, resume, error, unsupported, mode or other",
        "function": "function left uncompiled",
        "file": "its file",
        "line": "line it starts at; 0 where untold",
        "reason": "why, as far as the entry tells",
        "frames": "the user's stack at the cause, outermost first",
    }

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[tuple[str, str, str, int | None], int] = {}

    def add(self, record: Record) -> None:
        """Keep a skip if it is among the first of its like."""
        assert isinstance(record, FrameSkip)
        key = (record.kind, record.file, record.function, record.origin.rank)
        alike = self._kept[key] = self._kept.get(key, 0) + 1
        if alike <= ALIKE_MAX and len(self.rows) < ROWS_MAX:
            self.rows.append(record)
