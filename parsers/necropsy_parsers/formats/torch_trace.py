"""Structured logs of torch's compiler: what a run leaves in the folder that TORCH_TRACE names.

One file a process, `dedicated_log_torch_trace_rank_0_k2j4x1.log`: entries of a glog head with JSON and an indented
payload::

    V1129 12:21:29.136000 947 torch/_logging/structured.py:28] {"str": ["/home/trainer/vit/train.py", 1]}
    V1129 12:21:29.785000 947 torch/_dynamo/symbolic_convert.py:5101] {"artifact": {"name": "dynamo_graph_break_reason",
        Graph break in user code at /home/trainer/vit/train.py:67

Written by torch/_logging/_internal.py since 2.3. Graph breaks, recompilations, symbolic sizes and compilations become
the same records as those of text logs (`TORCH_LOGS`), with whole paths and measured seconds; giving both logs of a run
counts nothing twice. Entries are read one by one: a damaged one is counted, the others are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from necropsy_parsers.inductor.records import KernelText
from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor, Record
from necropsy_parsers.text.decode import text_chunks
from necropsy_parsers.text.naming import named

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "torch_trace"
TITLE: Final = "Structured logs of torch's compiler (TORCH_TRACE)"
PRIORITY: Final = 300
SAMPLES: Final = (
    'V1129 12:21:29.136000 947 torch/_logging/structured.py:28] {"str": ["/home/trainer/vit/train.py", 1]}\n',
    'V0327 09:07:39.798000 512 torch/_dynamo/utils.py:1809] {"chromium_event": {}, "frame_id": 0, "attempt": 0, '
    '"has_payload": "5de23ce604e40a53fe70601e8e95f985"}\n\t{\n\t"name": "dynamo",\n',
)
BLOCK: Final = 1 << 20  # bytes at a time: they are gone over four times, which memory nearby makes faster
# Text logs (TORCH_LOGS) have the same heads; a JSON object with a key behind the head is in structured ones only.
_ENTRY: Final = re.compile(rb'^V\d{4} \d\d:\d\d:\d\d\.\d{3,9} +\d+ [^\n\]]+?:\d+\] \{\s*"\w+"\s*:', re.MULTILINE)
_OTHER: Final = re.compile(rb"^(?![\tV\r\n])[^\n]", re.MULTILINE)


def sniff(head: bytes, name: str) -> str | None:
    """Claims text whose lines are entries with JSON, or the payloads of such."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    entries = len(_ENTRY.findall(text))
    if not entries:
        return None
    if not _ENTRY.match(text) and len(_OTHER.findall(text)) > entries + text.count(b"\n\t"):
        return None  # a job's log with some structured entries in it
    return "entries of TORCH_TRACE"


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """Records of a structured log."""
    from necropsy_parsers.structured.reading import StructuredReader

    reader = StructuredReader(source.name, issues, seq, named(source.name), postpone=source.lasting)
    yield from reader.records(_chunks(source, issues))
    if reader.awaits:
        yield KernelText(Anchor(source.name, 0, 0, 1), partial(_kernels, source, seq), seq=seq)


def _kernels(source: Source, seq: int) -> Iterator[Record]:
    """What the log tells of compiled kernels; of how it is read everything was told the first time."""
    from necropsy_parsers.structured.entry import Interned
    from necropsy_parsers.structured.kinds import all_modules
    from necropsy_parsers.structured.reading import StructuredReader

    told = Issues()
    modules = [m for m in all_modules() if m.postponed]
    reader = StructuredReader(source.name, told, seq, named(source.name), modules=modules)
    yield from (r for r in reader.records(_chunks(source, told)) if not isinstance(r, Interned))  # strings: told before


def _chunks(source: Source, issues: Issues) -> Iterator[bytes]:
    return text_chunks(source.chunks(BLOCK), source.name, issues, BLOCK)
