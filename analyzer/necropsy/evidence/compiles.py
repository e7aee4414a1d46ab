"""Compilations: one row a compile id and process, with its frame, its clock and how often it was begun."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.messages.compile_step import CompileStep
from necropsy_parsers.messages.training_value import TrainingValue
from necropsy_parsers.records import Anchor, Origin, Record, Stamp
from necropsy_parsers.text.plain import TextRun

from necropsy.evidence import Table

MAX_ROWS = 20_000  # compilations of one job; more of them are only counted


class CompileRow(Struct, frozen=True):
    """One compilation of one frame in one process.

    `compile_id` is Dynamo's frame/compilation (`4/1`), without the number of the restart. `seconds` run from its
    first step to its last in the log: the time of graphs that are compiled later (the backward's, on its first
    call) is in it only as far as the steps say.
    """

    anchor: Anchor
    origin: Origin
    seq: int
    attempt: int
    compile_id: str
    function: str
    file: str
    line: int | None
    backend: str
    started: Stamp | None
    ended: Stamp | None
    restarts: int
    backend_calls: int

    @property
    def seconds(self) -> float | None:
        """Clock time from the first step to the last, or None without clocks."""
        if self.started is None or self.ended is None or self.started.clock != self.ended.clock:
            return None
        return max(0.0, self.ended.seconds - self.started.seconds)


class Compiles(Table[CompileRow]):
    """One row a compilation; `totals` and `attempted` are what processes say of themselves at their end."""

    name = "compiles"
    row = CompileRow
    accepts = (CompileStep, TextRun, TrainingValue)
    supply = "the log of a run with TORCH_LOGS=dynamo"
    columns: ClassVar[dict[str, str]] = {
        "anchor": "its first step in the log",
        "origin": "who compiled: rank, pid",
        "seq": "order of reading",
        "attempt": "number of the attempt in the log, from 0",
        "compile_id": "Dynamo's frame/compilation, without the number of the restart",
        "function": "function as Dynamo names it",
        "file": "its file",
        "line": "line of its header",
        "backend": "compiler function that was called",
        "started": "clock of the first step",
        "ended": "clock of the last step",
        "restarts": "how often the analysis began anew",
        "backend_calls": "graphs that were handed to the backend",
    }

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[CompileStep] = []  # `attempted` and `metrics`, one a process
        self.dropped = 0
        self._spans: dict[tuple[str, int], tuple[Stamp, Stamp]] = {}
        self._by_key: dict[tuple[str, int, int | None, int | None, str], CompileRow] = {}

    def add(self, record: Record) -> None:
        """Take a step, or a line with a clock."""
        self._clock(record)
        if not isinstance(record, CompileStep):
            return
        o = record.origin
        if record.step in ("attempted", "metrics"):
            self.steps.append(record)
            return
        key = (record.anchor.input, record.attempt, o.rank, o.pid, o.compile_id.split("_")[0])
        row = self._by_key.get(key)
        if row is None:
            if not o.compile_id or len(self._by_key) >= MAX_ROWS:
                self.dropped += bool(o.compile_id)
                return
            row = CompileRow(
                record.anchor, o, record.seq, record.attempt, key[-1], "", "", None, "", o.time, o.time, 0, 0
            )
        self._by_key[key] = replace(
            row,
            function=row.function or record.function,
            file=row.file or record.file,
            line=row.line if row.line is not None else record.line,
            backend=row.backend or record.backend,
            ended=o.time or row.ended,
            restarts=row.restarts + (record.step == "restart"),
            backend_calls=row.backend_calls + (record.step == "backend"),
        )

    def span(self, name: str, attempt: int) -> float | None:
        """Seconds between the first and the last clock of an attempt in an input, or None without clocks."""
        first, last = self._spans.get((name, attempt), (None, None))
        return None if first is None or last is None else max(0.0, last.seconds - first.seconds)

    def _clock(self, record: Record) -> None:
        time, key = record.origin.time, (record.anchor.input, record.attempt)
        if time is None:
            return
        known = self._spans.get(key)
        if known is None:
            self._spans[key] = (time, time)
        elif time.clock == known[0].clock:
            if time.seconds < known[0].seconds:
                self._spans[key] = (time, known[1])
            elif time.seconds > known[1].seconds:
                self._spans[key] = (known[0], time)

    def seconds_of(self, record: Record, compile_id: str) -> float | None:
        """What the compilation `compile_id` of the record's process took, or None where that is not told."""
        o = record.origin
        row = self._by_key.get((record.anchor.input, record.attempt, o.rank, o.pid, compile_id))
        return row.seconds if row is not None else None

    def finish(self) -> None:
        """Put the rows in order of reading."""
        self.rows = sorted(self._by_key.values(), key=lambda r: r.seq)
