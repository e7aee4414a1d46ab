"""CSV of Nsight Compute: `ncu --page raw --csv` and `ncu --page details --csv`, of a report or of a run.

    "ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",...
    "","","","","","","","","",...,"us","%"
    "0","1131","python3.12","127.0.0.1","gather_kernel","1","7","(256, 1, 1)","(16, 32, 1)",...,"86.40","41.2"

What ncu or the program printed before the first line of the CSV may stand before it. Numbers may be written as any
locale does, units as any release.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.ncu.table import HEADER, Table
from necropsy_parsers.records import Record
from necropsy_parsers.text.decode import text_chunks

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "ncu_csv"
TITLE: Final = "CSV of Nsight Compute"
PRIORITY: Final = 300
SAMPLES: Final = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","gpu__time_duration.sum"\n'
    '"","","","","","","","us"\n',
)


def sniff(head: bytes, name: str) -> str | None:
    """Claims text whose first lines are the head of such a table; a job's log with one in it stays a log."""
    plain = head.replace(b"\x00", b"") if b"\x00" in head[:8] else head  # UTF-16, as PowerShell writes it
    if b"Process ID" not in plain:
        return None
    for number, line in enumerate(plain.decode("utf-8", "replace").splitlines()[:40]):
        if HEADER.match(line.lstrip("\ufffd")):
            return "the head of an Nsight Compute CSV" + (f" in line {number + 1}" if number else "")
        if line.strip() and not line.startswith("==PROF==") and not line.startswith("==WARNING=="):
            return None
    return None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """One `Launch` a profiled kernel."""
    table: Table | None = None
    offset = number = 0
    for chunk in text_chunks(source.chunks(), source.name, issues):
        for raw in io.BytesIO(chunk):  # a carriage return within a line ends none
            number += 1
            text = raw.rstrip(b"\r\n").decode("utf-8", "replace")
            if HEADER.match(text):
                if table is not None:
                    yield from table.launches()
                table = Table(text, source.name, seq)
            elif table is not None:
                table.line(text, offset, offset + len(raw), number)
            offset += len(raw)
    if table is not None:
        yield from table.launches()
        if table.damaged:
            issues.add("ncu/page", source.name, count=table.damaged, unit="rows")
