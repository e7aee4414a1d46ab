"""Builds of TensorRT engines, and runs of its tools."""

from __future__ import annotations

from bisect import bisect_right, insort
from itertools import islice
from operator import attrgetter
from typing import ClassVar, Final

from necropsy_parsers.messages.process_exit import ProcessExit
from necropsy_parsers.records import Record
from necropsy_parsers.tensorrt_log.records import TrtBuild

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON

CRASHES: Final = frozenset({"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT"})
NEAR: Final = 200  # lines between what TensorRT said last and the shell's word about the crash of its process
_seq: Final = attrgetter("seq")


class TrtBuilds(Table[TrtBuild]):
    """One row a build, or a run of trtexec, in the order of the log."""

    name = "trt_builds"
    row = TrtBuild
    accepts = (TrtBuild, ProcessExit)
    formats = ("log",)
    supply = "the log of a TensorRT build (trtexec --verbose, or a Logger of severity VERBOSE)"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "build": "number of the build in its input, from 0",
        "tool": "TensorRT.trtexec, or empty",
        "release": "TensorRT's version as numbers, empty where nothing tells it",
        "rtx": "it is TensorRT for RTX",
        "command": "the command line",
        "flags": "its options, by name",
        "options": "what trtexec printed of them, by name",
        "types": "precisions that were allowed (fp32, fp16, bf16, int8, fp8, ...), None where unknown",
        "strong": "the network is strongly typed, None where unknown",
        "model": "the ONNX file",
        "opset": "its opset",
        "producer": "who wrote it, with version",
        "device": "the GPU's name",
        "capability": "its compute capability",
        "workspace": "limit of the workspace in bytes, None where none was set",
        "seconds": "time of the build in seconds, None if no end is told",
        "finished": "the log says that the engine was built",
        "ended": "the line that says so, 0 if none",
        "outcome": "what the tool said last: passed, failed or empty",
        "verbose": "tactics or layers are told",
        "timed": "runners that were timed, those of reformats included",
        "timed_reformats": "those of reformats",
        "timing": "the log ends while tactics are timed",
        "quantized": "QuantizeLinear nodes were parsed",
        "last": "line of the last thing that TensorRT said in it",
        "placeholder_ranges": "tensors to which trtexec gave the range [-4, 4] for want of calibration",
    }

    def at(self, input: str, seq: int) -> TrtBuild | None:
        """The build of an input that a place in the order of reading belongs to."""
        before = [b for b in self.rows if b.anchor.input == input and b.seq <= seq]
        return before[-1] if before else None

    def __init__(self) -> None:
        super().__init__()
        self._exits: list[ProcessExit] = []
        self._numbered: dict[tuple[str, int], TrtBuild] = {}
        self._next: dict[tuple[str, int], int | None] = {}
        self._crashed: dict[int, TrtBuild] = {}  # what was built, by the identity of the end of its process
        self._told = (0, 0)  # builds and ends when that was made

    def add(self, record: Record) -> None:
        """Take a build, or the end of a process."""
        if isinstance(record, TrtBuild):
            self.rows.append(record)
            self._numbered[record.anchor.input, record.build] = record
        elif isinstance(record, ProcessExit) and record.signal in CRASHES:
            insort(self._exits, record, key=_seq)

    def crash_after(self, record: Record) -> ProcessExit | None:
        """The crash of a process that the log tells behind a row, before the next build."""
        if not self._exits:
            return None
        own = self.of(record)
        rank = own.origin.rank if own is not None else None
        following = self._following(own) if own is not None else None
        for e in islice(self._exits, bisect_right(self._exits, record.seq, key=_seq), None):
            if following is not None and e.seq >= following:
                return None
            if e.anchor.input != record.anchor.input:
                continue
            if own is not None and e.anchor.line - max(own.last, record.anchor.line) > NEAR:
                return None
            if rank is None or e.origin.rank in (None, rank):
                return e
        return None

    def _following(self, build: TrtBuild) -> int | None:
        """Where the next build of the same input and rank begins, None if there is none."""
        if len(self._next) != len(self.rows):
            begun: dict[tuple[str, int | None], TrtBuild] = {}
            for row in sorted(self.rows, key=lambda r: r.seq):
                key = row.anchor.input, row.origin.rank
                if key in begun:
                    self._next[begun[key].anchor.input, begun[key].build] = row.seq
                begun[key] = row
            self._next.update({(b.anchor.input, b.build): None for b in begun.values()})
        return self._next[build.anchor.input, build.build]

    def crashed_built(self, row: Record) -> TrtBuild | None:
        """The build that was finished when the process whose end `row` tells crashed, or None."""
        if self._told != (now := (len(self.rows), len(self._exits))):
            self._told, self._crashed = now, {}
            for b in self.rows:
                if b.finished and (end := self.crash_after(b)) is not None:
                    self._crashed.setdefault(id(end), b)
        return self._crashed.get(id(row))

    def covered(self, formats: frozenset[str]) -> bool:
        """Only what TensorRT wrote tells of builds."""
        return bool(self.rows)

    def of(self, record: Record) -> TrtBuild | None:
        """The build that a row of another table belongs to."""
        return self._numbered.get((record.anchor.input, getattr(record, "build", -1)))
