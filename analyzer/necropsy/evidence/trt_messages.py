"""What TensorRT warns of and fails with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar

from necropsy_parsers.records import Record
from necropsy_parsers.tensorrt_log.records import TrtBuild, TrtMessage

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON


class TrtMessages(Table[TrtMessage]):
    """One row a kind of message in a build: alike ones are counted."""

    name = "trt_messages"
    row = TrtMessage
    accepts = (TrtMessage, TrtBuild)
    formats = ("log",)
    supply = "the log of a TensorRT build or of a program that loads an engine"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "what it says (`necropsy_parsers.tensorrt_log.kinds`); error and warning: nothing that is known",
        "level": "V, I, W, E, F, or empty",
        "text": "its text, without heads",
        "code": "TensorRT's number of the error, or None",
        "category": "its words, such as Internal Error",
        "api": "the function that failed",
        "source": "place in TensorRT's own code",
        "words": "parts of the message, by name",
        "subjects": "layers, tensors or operators that it and its like name, 200 at most",
        "count": "how many there are",
        "build": "number of the build in its input, from 0",
        "node": "the ONNX node that the parser quotes, or None",
    }

    def __init__(self) -> None:
        super().__init__()
        self._seen = False
        self._errors: dict[tuple[str, int], list[TrtMessage]] = {}
        self._counted = -1  # rows when these were gathered

    def add(self, record: Record) -> None:
        """Take a message, or a sign that TensorRT wrote anything."""
        self._seen = True
        if isinstance(record, TrtMessage):
            self.rows.append(record)

    def finish(self) -> None:
        """Put them in order of reading."""
        self.rows.sort(key=lambda r: r.seq)

    def covered(self, formats: frozenset[str]) -> bool:
        """Only what TensorRT wrote tells of its errors."""
        return self._seen

    def of(self, *kinds: str) -> list[TrtMessage]:
        """The rows of these kinds, in order of reading."""
        return [r for r in self.rows if r.kind in kinds]

    def errors(self, build: TrtMessage | TrtBuild) -> Sequence[TrtMessage]:
        """The errors of the build that a row belongs to."""
        if self._counted != len(self.rows):
            self._counted, self._errors = len(self.rows), defaultdict(list)
            for r in self.rows:
                if r.level in ("E", "F"):
                    self._errors[r.anchor.input, r.build].append(r)
        return self._errors.get((build.anchor.input, build.build), [])
