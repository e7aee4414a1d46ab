"""What stands in the way of exports."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec.structs import replace

from necropsy_parsers.records import Frame
from necropsy_parsers.structured.entry import UNNAMED, Interned
from necropsy_parsers.structured.kinds.export import ExportFailure

from necropsy.evidence._records import COMMON, RecordTable

MAX_NAMES = 100_000


class ExportFailures(RecordTable[ExportFailure]):
    """One row an obstacle; an export's log names files by numbers that another log of its process explains."""

    name = "export_failures"
    row = ExportFailure
    accepts = (ExportFailure, Interned)
    formats = ("torch_trace",)
    supply = "the log of torch.export.draft_export, or structured logs of an export (TORCH_DTRACE=folder)"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "data-dependent, data-dependent error, missing kernel, mismatched kernel or guard",
        "op": "operator whose kernel is meant",
        "reason": "how a kernel differs",
        "expression": "what could not be evaluated, or what was assumed",
        "result": "what it was taken for",
        "frames": "stack, outermost first",
    }

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[tuple[int | None, str], str] = {}

    def add(self, record: Any) -> None:
        """Take an obstacle, or the name of a file."""
        if not isinstance(record, Interned):
            self.rows.append(record)
        elif len(self._names) < MAX_NAMES:
            self._names[record.origin.pid, UNNAMED.format(record.number)] = record.text

    def finish(self) -> None:
        """Name the files."""
        self.rows = [replace(row, frames=tuple(self._named(row, f) for f in row.frames)) for row in self.rows]

    def _named(self, row: ExportFailure, frame: Frame) -> Frame:
        name = self._names.get((row.origin.pid, frame.file))
        return replace(frame, file=name) if name is not None else frame
