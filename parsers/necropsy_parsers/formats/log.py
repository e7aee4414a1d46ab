"""Logs: the text that a job and everything around it wrote.

stdout and stderr of Python, C++ and launchers, of one process or woven together, with
or without prefixes, in any encoding::

    [rank3]: Traceback (most recent call last):
    3: 2025-06-13 20:29:55,656 model/model.py:580 : WARNING  : Skipping batch 12
    /pytorch/aten/src/ATen/native/cuda/Loss.cu:245: nll_loss_...: block: [0,0,0], thread: [0,0,0] Assertion ...

The messages inside are read by `necropsy_parsers.messages`, tracebacks by
`necropsy_parsers.text.traceback`. Text in which nothing is found is counted, not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from necropsy_parsers.inductor.records import KernelText
from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor, Record
from necropsy_parsers.text import unwrap
from necropsy_parsers.text.decode import text_chunks
from necropsy_parsers.text.log import LogReader
from necropsy_parsers.text.naming import named
from necropsy_parsers.text.tallying import read_again

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "log"
TITLE: Final = "Logs of jobs"
PRIORITY: Final = 900  # anything more specific is asked first
SAMPLES: Final = (
    "[rank0]: Traceback (most recent call last):",
    "Epoch 3:  41%|####      | 12/391 [00:41<21:33,  3.41s/it, loss=0.871]",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=88.0.",
)

BINARY_SHARE: Final = 0.05  # control bytes above this share are no text, whatever follows
_CONTROL: Final = bytes(range(9)) + bytes(range(14, 27)) + bytes(range(28, 32)) + b"\x7f"
_DOCUMENT: Final = re.compile(rb"\s*(?:\{\s*\"[^\"\n]{1,80}\"\s*:\s*(?:\[|\{|[\d\"tfn])|\[\s*[\[{])")


def sniff(head: bytes, name: str) -> str | None:
    """Claims text that is not one JSON document."""
    if not head:
        return None
    wide = head[:2] in (b"\xff\xfe", b"\xfe\xff")
    sample = head.replace(b"\x00", b"")
    if not sample:
        return None
    if not wide and len(sample) < len(head) / 2 and len(head) > 64 and head.count(b"\x00", 0, 4096) < len(head[:4096]):
        wide = head.count(b"\x00") <= len(head) * 0.55
    control = len(sample) - len(sample.translate(None, _CONTROL))
    if control > BINARY_SHARE * len(sample):
        return None
    if not wide and _invalid_share(sample) > 0.3:
        return None
    if _DOCUMENT.match(sample) and not _json_lines(sample):
        return None
    return "text" + (", UTF-16" if wide else "")


def _invalid_share(sample: bytes) -> float:
    """Share of characters that are not UTF-8; Latin-1 logs have few, compressed data many."""
    text = sample[:4096].decode("utf-8", "replace")
    return text.count("\ufffd") / max(1, len(text))


def _json_lines(sample: bytes) -> bool:
    """Whether the lines are JSON objects one by one: a structured log, still a log."""
    lines = [line for line in sample.split(b"\n")[:20] if line.strip()]
    whole = [line for line in lines if line.lstrip().startswith(b"{") and line.rstrip().endswith(b"}")]
    return len(whole) >= max(2, 0.6 * len(lines))


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """Records of a log."""
    reader = LogReader(source.name, issues, seq, named(source.name), postpone=source.lasting)
    yield from unwrap.records(text_chunks(source.chunks(), source.name, issues), reader.records, source.name, issues)
    if awaited := reader.tallies.awaited:
        yield KernelText(Anchor(source.name, 0, 0, 1), partial(_kernels, source, issues, seq, awaited), False, seq=seq)


def _kernels(source: Source, issues: Issues, seq: int, awaited: dict[int, frozenset[bytes]]) -> Iterator[Record]:
    """What the log tells of compiled kernels; of how it is read everything was told the first time."""
    told = Issues()
    chunks = text_chunks(source.chunks(), source.name, told)
    yield from unwrap.records(chunks, read_again(source.name, seq, issues, awaited), source.name, told)
