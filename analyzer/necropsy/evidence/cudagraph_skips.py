"""Graphs, and nodes of graphs, that were left out of CUDA graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from necropsy_parsers.messages.cudagraph import CudagraphSkip
from necropsy_parsers.records import Record
from necropsy_parsers.text.traceback import PythonTraceback

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON

NEAR: Final = 4096  # bytes within which the stack of a node follows it


class CudagraphSkips(Table[CudagraphSkip]):
    """One row a graph or node left out."""

    name = "cudagraph_skips"
    row = CudagraphSkip
    accepts = (CudagraphSkip, PythonTraceback)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "cpu, mutation, devices, dynamic, branch, overlap, op, inputs, rerecord, allocator, wrapper, chosen, "
        "node or other",
        "reason": "as printed, without prefixes and stack",
        "name": "node, operator or devices that it names",
        "count": "number of instances that it gives",
        "frames": "stack of the user's code, innermost last",
        "partial": "only a node is left out, the rest of its graph is captured",
    }

    def add(self, record: Record) -> None:
        """Take a skip, or the stack that torch 2.11 and later log line by line behind a node."""
        if isinstance(record, CudagraphSkip):
            self.rows.append(record)
            return
        assert isinstance(record, PythonTraceback)
        last = self.rows[-1] if self.rows else None
        if (
            last is not None
            and record.kind == "stack"
            and record.origin.artifact == "cudagraphs"
            and last.partial
            and not last.frames
            and last.origin.pid == record.origin.pid
            and 0 < record.seq - last.seq < NEAR
        ):
            self.rows[-1] = replace(last, frames=tuple(record.chain[-1].frames))
