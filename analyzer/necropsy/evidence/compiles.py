"""Compilations: one row a compile id and process, with its frame, its clock and how often it was begun."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.messages.compile_step import CompileStep
from necropsy_parsers.messages.training_value import TrainingValue
from necropsy_parsers.records import Anchor, Origin, Record, Stamp
from necropsy_parsers.structured.kinds.metrics import CompilationMetrics
from necropsy_parsers.text.plain import TextRun

from necropsy.evidence import Table
from necropsy.evidence._twice import STREAM
from necropsy.provenance.dynamo import resumed_at

Key = tuple[str, int, "int | None", "int | None", str]
MAX_ROWS = 20_000  # compilations of one job; more of them are only counted


class CompileRow(Struct, frozen=True):
    """One compilation of one frame in one process.

    `compile_id` is Dynamo's frame/compilation (`4/1`), without the number of the restart. `seconds` run from its
    first step to its last in the log: the time of graphs that are compiled later (the backward's, on its first
    call) is in it only as far as the steps say. Where a structured log tells what it took, backward included, that is
    `measured`, and `lost` the seconds of it that were thrown away when the analysis began anew.
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
    measured: float | None = None
    lost: float = 0.0

    @property
    def seconds(self) -> float | None:
        """What it took as measured, else the clock time from the first step to the last, or None without clocks."""
        if self.measured is not None:
            return self.measured
        if self.started is None or self.ended is None or self.started.clock != self.ended.clock:
            return None
        return max(0.0, self.ended.seconds - self.started.seconds)


class Compiles(Table[CompileRow]):
    """One row a compilation; `totals` and `attempted` are what processes say of themselves at their end."""

    name = "compiles"
    row = CompileRow
    accepts = (CompileStep, CompilationMetrics, TextRun, TrainingValue)
    formats = ("log", "elastic_error_file", "torch_trace")
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
        "measured": "seconds that a structured log says it took, or None",
        "lost": "seconds of these that were thrown away because the analysis began anew, as a structured log says",
    }

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[CompileStep] = []  # `attempted` and `metrics`, one a process
        self.dropped = 0
        self._spans: dict[tuple[str, int], tuple[Stamp, Stamp]] = {}
        self._by_key: dict[Key, CompileRow] = {}
        self._resumed: dict[tuple[str, int | None], list[CompileRow]] | None = None
        self._twins: dict[tuple[bool, int, str], Key] = {}  # of processes that wrote a structured log besides

    def add(self, record: Record) -> None:
        """Take a step, or a line with a clock."""
        self._clock(record)
        if isinstance(record, CompilationMetrics):
            self._measured(record)
        elif isinstance(record, CompileStep) and record.step in ("attempted", "metrics"):
            self.steps.append(record)
        elif isinstance(record, CompileStep):
            self._step(record)

    def _step(self, record: CompileStep) -> None:
        o = record.origin
        key = self._key(record, o.compile_id.split("_")[0])
        row = self._row(record, key)
        if row is not None:
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

    def _measured(self, record: CompilationMetrics) -> None:
        key = self._key(record, record.compile_id)
        row = self._row(record, key)
        if row is not None and record.seconds is not None:
            self._by_key[key] = replace(
                row,
                function=row.function or record.function,
                file=row.file or record.file,
                line=row.line if row.line is not None else record.line,
                ended=row.ended if record.backward else record.origin.time or row.ended,
                restarts=max(row.restarts, len(record.restarts)),
                measured=(row.measured or 0.0) + record.seconds,
                lost=row.lost + record.before_restart,
            )

    def _row(self, record: Record, key: Key) -> CompileRow | None:
        """The row of a compilation, a new one if there is room."""
        row, o = self._by_key.get(key), record.origin
        if row is None and key[-1]:
            if len(self._by_key) >= MAX_ROWS:
                self.dropped += 1
                return None
            row = CompileRow(
                record.anchor, o, record.seq, record.attempt, key[-1], "", "", None, "", o.time, o.time, 0, 0
            )
        return row

    def _key(self, record: Record, compile_id: str) -> Key:
        """Whose compilation it is: the same of the text log and of the structured log of one process."""
        o = record.origin
        key = (record.anchor.input, record.attempt, o.rank, o.pid, compile_id)
        if o.pid is None or key in self._by_key:
            return key
        structured = o.stream == STREAM
        twin = self._twins.get((not structured, o.pid, compile_id))
        if twin is None:
            self._twins.setdefault((structured, o.pid, compile_id), key)
            return key
        if not structured and twin in self._by_key:  # the text log tells what the run did besides: it stands for both
            row = self._by_key.pop(twin)
            self._by_key[key] = replace(row, anchor=record.anchor, origin=o, seq=record.seq, attempt=record.attempt)
            self._twins[(False, o.pid, compile_id)] = key
            return key
        return twin

    def span(self, name: str, attempt: int) -> float | None:
        """Seconds between the first and the last clock of an attempt in an input, or None without clocks."""
        first, last = self._spans.get((name, attempt), (None, None))
        return None if first is None or last is None else max(0.0, last.seconds - first.seconds)

    def _clock(self, record: Record) -> None:
        time, key = record.origin.time, (record.anchor.input, record.attempt)
        if time is None or record.origin.stream == STREAM:  # which tells of compiling only, not how long the run was
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
        row = self._by_key.get(self._key(record, compile_id))
        return row.seconds if row is not None else None

    def lost_to(self, record: Record) -> float:
        """Seconds of the record's own compilation that were thrown away, if its analysis began anew but once."""
        row = self._by_key.get(self._key(record, record.origin.compile_id.split("_")[0]))
        return row.lost if row is not None and row.restarts == 1 else 0.0

    def behind(self, places: Iterable[tuple[str, int | None]]) -> list[CompileRow]:
        """First compilations of what goes on behind graph breaks at these places, in order of reading."""
        if self._resumed is None:
            self._resumed = {}
            for row in self.rows:
                line = resumed_at(row.function)
                if line is not None and row.compile_id.endswith("/0"):
                    self._resumed.setdefault((row.file, line), []).append(row)
        return sorted((row for place in places for row in self._resumed.get(place, ())), key=lambda r: r.seq)

    def finish(self) -> None:
        """Put the rows in order of reading."""
        self.rows = sorted(self._by_key.values(), key=lambda r: r.seq)
