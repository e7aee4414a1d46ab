"""Text pages of Nsight Compute, as a file: `ncu --page details --import FILE > page.txt`.

    [4411] python3.12@127.0.0.1
      add_kernel(float *, int) (64, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
        Section: GPU Speed Of Light Throughput
        Duration                         us        12.48

Pages in the middle of a job's log are found there (`necropsy_parsers.tallies`). Advice of NVIDIA's rules is read with
its section, kind and estimated speed-up; Python stacks and NVTX ranges where they were collected.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.ncu.page import HEAD, PROCESS, SUMMARY, Page
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record
from necropsy_parsers.text.decode import text_chunks

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "ncu_page"
TITLE: Final = "Text pages of Nsight Compute"
PRIORITY: Final = 310
_DEVICE: Final = lazily(r"\s+Device \d+\s*$")  # `--print-summary per-gpu` groups kernels by it
SAMPLES: Final = (
    "[4411] python3.12@127.0.0.1\n  add_kernel(int) (64, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0\n",
    "  add_kernel(float *, int), 2020-May-05 12:00:00, Context 1, Stream 7\n    Section: GPU Speed Of Light\n",
)


def sniff(head: bytes, name: str) -> str | None:
    """Claims text that begins with a page; behind other output it is a job's log."""
    plain = head.replace(b"\x00", b"") if b"\x00" in head[:8] else head  # UTF-16, as PowerShell writes it
    if b", Context " not in plain and b"nvocations" not in plain:
        return None
    for line in plain.decode("utf-8", "replace").splitlines()[:6]:
        text = line.lstrip("\ufeff\ufffd")
        if HEAD.match(text):
            return "a page of Nsight Compute"
        if SUMMARY.match(text):
            return "a summary of Nsight Compute"
        if text.strip() and not PROCESS.match(text) and not _DEVICE.match(text):
            return None
    return None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """One `Launch` a profiled kernel."""
    page = Page(source.name, seq)
    offset = number = 0
    for chunk in text_chunks(source.chunks(), source.name, issues):
        for raw in io.BytesIO(chunk):  # a carriage return within a line ends none
            number += 1
            page.line(raw.rstrip(b"\r\n").decode("utf-8", "replace"), offset, offset + len(raw), number)
            offset += len(raw)
    yield from page.launches()
