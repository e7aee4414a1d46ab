"""Traces of torch's profiler (Kineto), and other Chrome-trace JSON.

What `prof.export_chrome_trace`, `tensorboard_trace_handler` and the execution of dynolog
write: operators, Python frames, calls of the CUDA or HIP runtime, kernels, copies,
allocations and annotations with their times. One event::

    {"ph": "X", "cat": "kernel", "name": "ampere_sgemm_128x64_nn", "pid": 0, "tid": 7,
     "ts": 5097945130740.672, "dur": 41.152, "args": {"External id": 268, "device": 0,
     "stream": 7, "correlation": 21014, "grid": [32, 4, 1], "block": [128, 1, 1]}}

Read from torch 1.8 to the newest, of CUDA, ROCm and the CPU, gzipped or not; the array
form of older releases too. Damaged events are repaired or lost one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from necropsy_parsers.issues import Issues
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import UNKNOWN, Anchor, Origin, Record

if TYPE_CHECKING:
    from necropsy_parsers.source import Source
    from necropsy_parsers.trace.model import Losses, Trace

NAME: Final = "kineto"
TITLE: Final = "Traces of torch's profiler"
PRIORITY: Final = 220
SAMPLES: Final = (
    '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1.5, "dur": 2}]}',
    '[{"name": "aten::add", "ph": "X", "ts": 12.3, "dur": 4.5, "tid": 1, "pid": "CPU functions", "args": {}}]',
)

# rank0.json, rank-3.trace.json, worker_rank_12_..., host_1234.567.pt.trace.json has none
_RANK: Final = lazily(r"(?i)(?<![a-z])rank[-_.]?(\d{1,6})(?!\d)")


def sniff(head: bytes, name: str) -> str | None:
    """Claims JSON with the key `traceEvents`, or a list of events."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] == b"{":
        if b'"traceEvents"' in text:
            return "JSON with the key traceEvents"
        if b'"schemaVersion"' in text and (b'"deviceProperties"' in text or b'"trace_id"' in text):
            return "JSON with the head of a profiler's trace"
    events = text[:1] == b"[" and text[1:].lstrip()[:1] == b"{"
    if events and b'"ph"' in text and b'"ts"' in text:
        return "a JSON list of trace events"
    return None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """One `Trace`."""
    from necropsy_parsers.trace.marks import apart
    from necropsy_parsers.trace.metadata import metadata
    from necropsy_parsers.trace.model import Trace
    from necropsy_parsers.trace.reader import TraceReader

    reader = TraceReader()
    kinds = reader.read(source.chunks(1 << 20))
    meta = metadata(reader.head, reader.tail)
    tell(reader.losses, source.name, issues)
    names = list(reader.tables.names)
    trace = Trace(
        anchor=Anchor("", 0, 0, 1),
        origin=UNKNOWN,
        seq=seq,
        meta=meta,
        kinds=apart(kinds, names),
        names=names,
        processes=list(reader.tables.processes),
        threads=list(reader.tables.threads),
        texts=list(reader.tables.texts),
        losses=reader.losses,
        events=reader.events,
    )
    yield of_input(trace, source.name, seq)


def of_input(trace: Trace, name: str, seq: int) -> Trace:
    """The trace as that of an input: its anchor, and its rank, which the name may tell."""
    rank = trace.meta.rank if trace.meta.rank is not None else _rank_in(name)
    return replace(trace, anchor=Anchor(name, 0, 0, 1), origin=UNKNOWN if rank is None else Origin(rank=rank), seq=seq)


def tell(lost: Losses, name: str, issues: Issues) -> None:
    """What was lost, as issues."""
    if lost.cut:
        issues.add("trace/cut", name)
    for kind, count in (
        ("trace/repaired", lost.repaired),
        ("trace/dropped", lost.dropped),
        ("trace/args", lost.args),
        ("trace/times", lost.times),
    ):
        if count:
            issues.add(kind, name, count=count, unit="events")


def _rank_in(name: str) -> int | None:
    found = _RANK.findall(name.replace("\\", "/").rsplit("/", 1)[-1]) or _RANK.findall(name)
    return int(found[-1]) if found else None
