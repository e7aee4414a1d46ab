"""The user's source files named by the inputs, where they are found on this machine."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from necropsy_parsers.messages.python_warning import PythonWarning
from necropsy_parsers.messages.thread_stack import ThreadStack
from necropsy_parsers.onnxmodel.records import OnnxNode
from necropsy_parsers.records import Frame, Record
from necropsy_parsers.text.traceback import PythonTraceback

from necropsy.evidence import Table
from necropsy.provenance.files import SourceTree


class SourceRow(Struct, frozen=True):
    """A file as the inputs name it, and how many of its lines they quote."""

    file: str
    quoted: int


class Sources(Table[SourceRow]):
    """Files named and quoted; `tree` finds and reads them. Covered always: no source is no error."""

    name = "sources"
    row = SourceRow
    accepts = (PythonTraceback, PythonWarning, ThreadStack, OnnxNode)
    supply = "--source DIR: the folder of the user's sources"
    columns: ClassVar[dict[str, str]] = {"file": "as the inputs name it", "quoted": "lines of it that they quote"}

    def __init__(self) -> None:
        super().__init__()
        self.quoted: dict[str, dict[int, str]] = {}
        self.tree = SourceTree(quoted=self.quoted)

    def add(self, record: Record) -> None:
        """Keep what a stack quotes of its files."""
        frames: list[Frame] = []
        if isinstance(record, PythonTraceback):
            for exc in record.chain:
                frames += [*exc.frames, *exc.user_frames]
        elif isinstance(record, PythonWarning | ThreadStack):
            frames += record.frames
        elif isinstance(record, OnnxNode):
            frames += record.stack
        for frame in frames:
            if frame.line is not None:
                self.quoted.setdefault(frame.file, {})[frame.line] = frame.text

    def finish(self) -> None:
        """One row a file."""
        self.rows = [SourceRow(f, sum(bool(t) for t in q.values())) for f, q in self.quoted.items()]

    def covered(self, formats: frozenset[str]) -> bool:
        """Always: rules degrade to what the log quotes."""
        return True
