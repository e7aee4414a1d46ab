"""Workers that torchrun's summary reports as failed: one row a worker."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.elastic_failure import ElasticFailure, FailureLine, failures
from necropsy_parsers.messages.process_exit import ProcessExit
from necropsy_parsers.records import Record
from necropsy_parsers.text.traceback import PythonTraceback

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON


class ElasticFailures(Table[ElasticFailure]):
    """One row a worker of a summary; the lines of a summary come one by one."""

    name = "elastic_failures"
    row = ElasticFailure
    accepts = (FailureLine, PythonTraceback, ProcessExit)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "rank": "rank in the whole job, or None",
        "local_rank": "rank on its node, or None",
        "host": "name of its node",
        "pid": "process id",
        "code": "exit code; negative: killed by that signal",
        "signal": "name of the signal, or empty",
        "time": "when it was noticed, as printed",
        "first": "torchrun noticed this one first",
        "error_file": "path of its error file, or empty",
        "message": "the exception that the error file names, or empty",
        "frames": "stack of the error file, outermost first",
    }

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[FailureLine] = []
        self._stacks: list[PythonTraceback] = []
        self._by_pid: dict[tuple[int | None, int], list[ElasticFailure]] = {}
        self._local: dict[tuple[int, int], int] = {}

    def add(self, record: Record) -> None:
        """Take a line of a summary, a traceback that may stand in one, or a launcher's line about an end."""
        if isinstance(record, FailureLine):
            self._lines.append(record)
        elif isinstance(record, PythonTraceback):
            self._stacks.append(record)
        elif isinstance(record, ProcessExit) and record.pid is not None and record.origin.local_rank is not None:
            self._local[record.pid, record.attempt] = record.origin.local_rank

    def finish(self) -> None:
        """Put the lines of each worker together."""
        self.rows = failures(self._lines, self._stacks)
        for row in self.rows:
            self._by_pid.setdefault((row.pid, row.attempt), []).append(row)

    def of_process(self, pid: int | None, attempt: int, seq: int = 0) -> ElasticFailure | None:
        """The worker with that process id, or None; containers share numbers: the summary nearest to `seq` counts."""
        rows = self._by_pid.get((pid, attempt), []) if pid is not None else []
        return min(rows, key=lambda r: abs(r.seq - seq), default=None)

    def local_rank_of(self, pid: int, attempt: int) -> int | None:
        """The local rank of a process, by the summary or by the line that reports its end."""
        worker = self.of_process(pid, attempt)
        return worker.local_rank if worker is not None else self._local.get((pid, attempt))
