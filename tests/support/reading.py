"""Bytes to records and reports without a file of one's own, and what must hold of every reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from necropsy_parsers.formats import torch_trace
from necropsy_parsers.issues import Issues, ParseIssue
from necropsy_parsers.records import Anchor, Record
from necropsy_parsers.sniff import HEAD
from necropsy_parsers.structured.reading import StructuredReader
from necropsy_parsers.text.decode import text_chunks
from necropsy_parsers.text.log import LogReader
from necropsy_parsers.text.naming import named

from necropsy.api import analyze
from necropsy.report import Report

R = TypeVar("R", bound=Record)

# Written apart from the reader's own patterns: colours, window titles, control characters.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|\[[\d;]{1,12}m"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Reading:
    """What one log gave: its text after conversion to UTF-8, the records, the issues."""

    text: bytes
    records: list[Record]
    issues: list[ParseIssue]

    def of(self, kind: type[R]) -> list[R]:
        """The records of one type."""
        return [r for r in self.records if isinstance(r, kind)]


def reader_of(data: bytes, name: str, issues: Issues) -> Callable[[Iterable[bytes]], Iterator[Record]]:
    """What reads such a log's text: structured logs of torch's compiler have a reader of their own."""
    if torch_trace.sniff(data[:HEAD], name):
        return StructuredReader(name, issues, 0, named(name)).records
    return LogReader(name, issues).records


def read(data: bytes | str, name: str = "run.log") -> Reading:
    """Read a log from memory."""
    raw = data.encode() if isinstance(data, str) else data
    text = b"".join(text_chunks([raw], name, Issues()))
    issues = Issues()
    records = list(reader_of(raw, name, issues)(text_chunks([raw], name, issues)))
    return Reading(text, records, issues.rows())


def report_on(data: bytes | str, folder: Path, name: str = "run.log") -> Report:
    """The report on a file of that content in `folder`."""
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return analyze([str(path)])


def plain(data: bytes) -> str:
    """Text as a reader sees it: no colours, no control characters, one blank for many."""
    text = data.decode("utf-8", "replace").replace("\r", " ")
    return " ".join(_CONTROLS.sub("", _ESCAPES.sub("", text)).split())


def anchor_faults(anchors: Iterable[Anchor], text: bytes) -> Iterator[str]:
    """What is wrong with anchors into `text`: range, line number, quoted words."""
    for a in anchors:
        if not 0 <= a.start <= a.end <= len(text):
            yield f"{a}: outside 0..{len(text)}"
        elif a.start and text[a.start - 1 : a.start] != b"\n":
            yield f"{a}: starts inside a line"
        elif (line := text.count(b"\n", 0, a.start) + 1) != a.line:
            yield f"{a}: its offset is on line {line}"
        elif plain(a.text.encode()) not in plain(text[a.start : a.end]):
            yield f"{a}: quotes what is not there: {text[a.start : min(a.end, a.start + 300)]!r}"


def report_anchors(report: Report) -> list[Anchor]:
    """Every anchor of a report that points into an input's text."""
    anchors = [f.anchor for f in report.findings]
    anchors += [r.anchor for f in report.findings for r in f.related]
    anchors += [i.first for i in report.issues if i.first is not None]
    return [a for a in anchors if a.end]
