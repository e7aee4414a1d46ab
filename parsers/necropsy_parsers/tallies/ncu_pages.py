"""Pages and CSV of Nsight Compute in the middle of a job's log: what `ncu python train.py` prints at the end.

      add_kernel(float *, int) (64, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
        Section: GPU Speed Of Light Throughput
"ID","Process ID","Process Name","Host Name","Kernel Name",...                              ncu --csv

The same as `formats/ncu_page` and `formats/ncu_csv` read of files; launchers' prefixes are taken off. Whose it is, is
that of the line that names the kernel.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.ncu.page import PROCESS, Page
from necropsy_parsers.ncu.records import Launch
from necropsy_parsers.ncu.table import HEADER, Table
from necropsy_parsers.records import UNKNOWN, Origin, Record
from necropsy_parsers.tallies import Whose

NAME: Final = "ncu_pages"
TITLE: Final = "Pages of Nsight Compute in a log"
LITERALS: Final = (
    b", Context ",
    b'"ID","Process ID"',
    b'"Process ID","Process Name"',
    b", Invocations ",
    b", Grid Size ",
)
ALSO: Final = (b"    Section: ", b')","(')  # once a section, and once a row (between block and grid): rare elsewhere
_HEADS: Final = (b", Context ", b"Process ID", b"nvocations", b"@", b"Section: ")
ASKS: Final = True
EVERY: Final = True  # rows go on in a chunk that holds none of the words
MAX_BYTES: Final = 64 << 20


class Tally:
    """Hands the lines of a log to the reader of pages, and to that of CSV behind its first line."""

    def __init__(self, name: str, first_seq: int, whose: Whose) -> None:
        self._name = name
        self._seq = first_seq
        self._whose = whose
        self._page = Page(name, first_seq)
        self._table: Table | None = None
        self._tables: list[Table] = []
        self._inside = False
        self._origins: dict[int, tuple[Origin, int]] = {}  # offset of a line that names a kernel -> whose it is

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Take the lines of a chunk."""
        if not self._inside and self._table is None and not any(word in chunk for word in _HEADS):
            return
        offset, number = start, line
        for raw in io.BytesIO(chunk):  # a carriage return within a line ends none: a bar was drawn over
            number += 1
            if self._inside or self._table is not None or any(word in raw for word in _HEADS):
                for drawn in raw.strip(b"\r\n").split(b"\r"):
                    self._line(drawn, offset, offset + len(raw), number)
            offset += len(raw)

    def _line(self, raw: bytes, start: int, end: int, number: int) -> None:
        plain = raw.rstrip(b"\r\n")
        text, origin, attempt = plain.decode("utf-8", "replace"), UNKNOWN, 0
        if text[:1] not in (" ", "\t", "", '"') and not PROCESS.match(text):  # lines of CSV are too long to be peeled
            text, origin, attempt = self._whose(plain, start)
        if self._table is not None:
            if self._table.line(text, start, end, number):
                return
            self._table = None
        if HEADER.match(text):
            self._table = Table(text, self._name, self._seq)
            self._tables.append(self._table)
            self._inside = False
            return
        self._inside = self._page.line(text, start, end, number)
        if self._inside and (", Context " in text or "nvocations" in text):
            self._origins[start] = (origin, attempt)

    def records(self) -> Iterator[Record]:
        """One record a launch, in the order of the log."""
        found = [*self._page.launches(), *(launch for table in self._tables for launch in table.launches())]
        yield from (self._told(launch) for launch in sorted(found, key=lambda x: x.anchor.start))

    def _told(self, launch: Launch) -> Launch:
        origin, attempt = self._origins.get(launch.anchor.start, (UNKNOWN, 0))
        return launch if origin is UNKNOWN else replace(launch, origin=origin, attempt=attempt)
