"""Error files of torchrun's workers: the exception of one worker, with its traceback and time.

    logs/none_abc123/attempt_0/3/error.json
    {"message": {"message": "ValueError: shard 1 holds no samples",
                 "extraInfo": {"py_callstack": "Traceback (most recent call last): ...", "timestamp": "1795964794"}}}

Written where main() is decorated with `torch.distributed.elastic.multiprocessing.errors.record`, into the folder that
`--log-dir` names (else below /tmp); the launcher copies the first one to TORCHELASTIC_ERROR_FILE. The folder is named
after the attempt and the local rank, which on one node is the rank.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.messages import Message, read_all
from necropsy_parsers.records import Anchor, Origin, Record, Stamp
from necropsy_parsers.text.naming import named
from necropsy_parsers.text.traceback import PythonTraceback, TracebackReader

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "elastic_error_file"
TITLE: Final = "Error files of torchrun's workers"
PRIORITY: Final = 300
SAMPLES: Final = ('{"message": {"message": "ValueError: bad", "extraInfo": {"py_callstack": "Traceback (most',)
MAX_BYTES: Final = 16 << 20  # a traceback; more is no error file


def sniff(head: bytes, name: str) -> str | None:
    """Claims JSON objects that begin with a message and have torchelastic's keys."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b'{"message":') and b'"extraInfo"' in text and b'"py_callstack"' in text:
        return "JSON with the keys of an error file"
    return None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """The exception of the file, and what it says."""
    data = b""
    for chunk in source.chunks():
        data += chunk
        if len(data) > MAX_BYTES:
            issues.add("source/limit", source.name)
            return
    text = data.decode("utf-8", "replace")
    try:
        value = json.loads(text.lstrip("\ufeff"))
    except ValueError:
        issues.add("source/corrupt", source.name, detail="no JSON")
        return
    told = value.get("message") if isinstance(value, dict) else None
    info = told.get("extraInfo") if isinstance(told, dict) else None
    stack = info.get("py_callstack") if isinstance(info, dict) else None
    if isinstance(told, dict) and isinstance(info, dict):
        lines = str(stack or told.get("message") or "").splitlines()
        yield from _exception(source.name, len(data), text, lines, info.get("timestamp"), seq)


def _exception(name: str, size: int, text: str, lines: list[str], stamp: Any, seq: int) -> Iterator[Record]:
    reader = TracebackReader()
    begun = reader.begin(lines[0]) if lines else ""
    if not begun:
        return
    for line in lines[1:]:
        reader.feed(line)
    chain = reader.take()
    if not chain[-1].complete:
        return
    where = named(name)
    said = f"{chain[-1].type}: {chain[-1].message}".rstrip(": ")[:400]
    anchor = Anchor(name, 0, size, 1, said if said in text else "")
    origin = Origin(rank=where.rank, time=_time(stamp))
    kind = "plain" if begun == "header" else "bare"
    trace = PythonTraceback(anchor, chain, kind, len(lines), origin=origin, seq=seq, attempt=where.attempt)
    yield trace
    for exc in chain:
        whole = f"{exc.type}: {exc.text}"
        yield from read_all(Message(whole, anchor, origin, seq, where.attempt, exception=trace))


def _time(stamp: Any) -> Stamp | None:
    """The time of the failure, in UTC; loggers print local time, which may be hours apart."""
    try:
        seconds = int(stamp)
        return Stamp(float(seconds), "date", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)))
    except (TypeError, ValueError, OverflowError, OSError):
        return None
