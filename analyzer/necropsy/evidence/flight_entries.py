"""Flight-recorder dumps as a table of their entries, and what the dumps of a job say together.

The entries stay in the columns in which they were read; rows are made when somebody asks
for them. Rules ask for `cases`: for each job, the collectives that do not match, and the
ranks at which waiting began.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from necropsy_parsers.flight import COMPLETED, RETIRED, STARTED, STATES, FlightDump
from necropsy_parsers.records import Frame, Record

from necropsy.evidence import Table
from necropsy.evidence._flight_blame import Verdict, verdict
from necropsy.evidence._flight_jobs import Job, jobs_of
from necropsy.evidence._flight_match import Mismatch, mismatches_of
from necropsy.evidence._flight_moment import why_running
from necropsy.provenance.frames import is_library

if TYPE_CHECKING:
    import pandas as pd


class FlightEntry(Struct, frozen=True):
    """One entry of one rank's dump."""

    rank: int | None
    input: str
    record: int
    group: str
    description: str
    sequence: int | None
    p2p_sequence: int | None
    op: str
    source: int | None
    target: int | None
    input_sizes: tuple[tuple[int, ...], ...]
    input_types: tuple[str, ...]
    output_sizes: tuple[tuple[int, ...], ...]
    output_types: tuple[str, ...]
    state: str
    retired: bool
    created: int
    started: int | None
    completed: int | None
    file: str
    line: int | None
    function: str


class Case(Struct, frozen=True):
    """What the dumps of one job say together."""

    job: Job
    mismatches: tuple[Mismatch, ...]
    verdict: Verdict
    running: str = ""  # why the dumps need not be of a hang, in a clause


class FlightEntries(Table[FlightEntry]):
    """Collectives, sends and receives that the ranks enqueued last, one row an entry."""

    name = "flight_entries"
    row = FlightEntry
    accepts = (FlightDump,)
    formats = ("flight_recorder",)
    supply = "flight-recorder dumps of all ranks (TORCH_NCCL_TRACE_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1)"
    columns: ClassVar[dict[str, str]] = {
        "rank": "whose dump it is",
        "input": "the dump's file",
        "record": "number of the entry since the process began",
        "group": "name of the process group, a number or a hash",
        "description": "what the program calls the group",
        "sequence": "number of the collective in its group; none for sends and receives",
        "p2p_sequence": "number of the send, receive or batch of them, counted by each rank for itself",
        "op": "all_reduce, send, ...",
        "source": "sender, as a rank of the group",
        "target": "receiver, as a rank of the group",
        "input_sizes": "shapes",
        "input_types": "element types",
        "output_sizes": "shapes",
        "output_types": "element types",
        "state": "scheduled, started or completed, when it was dumped",
        "retired": "the watchdog has let go of it",
        "created": "ns since 1970, when the host enqueued it",
        "started": "ns since 1970, when it was found to have started",
        "completed": "ns since 1970, when it was found to be complete",
        "file": "innermost frame of the user's code",
        "line": "its line",
        "function": "its function",
    }

    def __init__(self) -> None:
        super().__init__()
        self.dumps: list[FlightDump] = []
        self._cases: list[Case] | None = None

    def add(self, record: Record) -> None:
        """Take a dump."""
        if isinstance(record, FlightDump):
            self.dumps.append(record)

    def covered(self, formats: frozenset[str]) -> bool:
        """Whether any dump could be read: one that was refused tells nothing."""
        return super().covered(formats) and bool(self.dumps)

    def cases(self) -> list[Case]:
        """One a job, computed once."""
        if self._cases is None:
            self._cases = [_case(job) for job in jobs_of(self.dumps)]
        return self._cases

    def __len__(self) -> int:
        return sum(len(d.entries) for d in self.dumps)

    def __iter__(self) -> Iterator[FlightEntry]:
        for d in self.dumps:
            yield from (_row(d, i) for i in range(len(d.entries)))

    def frame(self) -> pd.DataFrame:
        """The rows as a DataFrame with the documented columns."""
        import pandas as pd

        rows: list[dict[str, Any]] = [{c: getattr(r, c) for c in self.columns} for r in self]
        return pd.DataFrame(rows, columns=list(self.columns))


def _case(job: Job) -> Case:
    mismatches = mismatches_of(job)
    told = verdict(job, {m.group: m.number for m in mismatches if not m.complete})
    return Case(job, tuple(mismatches), told, why_running(told.found) if told.blames else "")


def user_frame(dump: FlightDump, entry: int) -> Frame | None:
    """The innermost frame of the user's Python in an entry's stack, which begins with the innermost."""
    index = dump.entries.stack[entry]
    for f in dump.stacks[index] if index >= 0 else ():
        # With TORCH_NCCL_TRACE_CPP_STACK the frames of C++ stand among those of Python.
        if f.line is not None and not is_library(f.file) and (f.file.endswith(".py") or f.file.startswith("<")):
            return f
    return None


def _row(dump: FlightDump, i: int) -> FlightEntry:
    e, call = dump.entries, dump.calls[dump.entries.call[i]]
    group = dump.groups[e.group[i]]
    frame = user_frame(dump, i)
    state = e.state[i] & (STARTED | COMPLETED)
    return FlightEntry(
        dump.rank,
        dump.anchor.input,
        e.record[i],
        group.name,
        group.description,
        e.sequence[i] if e.p2p[i] < 0 else None,
        e.p2p[i] if e.p2p[i] >= 0 else None,
        call.op,
        call.peer[0] if call.peer else None,
        call.peer[1] if call.peer else None,
        call.input_sizes,
        call.input_types,
        call.output_sizes,
        call.output_types,
        STATES[min(state, len(STATES) - 1)],
        bool(e.state[i] & RETIRED),
        e.created[i],
        e.started[i] or None,
        e.completed[i] or None,
        frame.file if frame else "",
        frame.line if frame else None,
        frame.function if frame else "",
    )
