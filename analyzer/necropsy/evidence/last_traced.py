"""Lines that Dynamo traced last, of processes whose compiler logged nothing behind them."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.tallies.last_traced import LastTraced

from necropsy.evidence._records import COMMON, RecordTable


class LastTracedLines(RecordTable[LastTraced]):
    """One row a process."""

    name = "last_traced"
    row = LastTraced
    accepts = (LastTraced,)
    supply = "the log of a run with TORCH_LOGS=trace_source"
    columns: ClassVar[dict[str, str]] = {**COMMON, "frames": "the lines, the last one last"}
