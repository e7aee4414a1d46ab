"""Which line of the program Dynamo looked at last, where the log of a process ends with that.

[0/0] [__trace_source] TRACE starts_line /home/trainer/projects/net/train.py:13 in forward (Net.forward)
[0/0] [__trace_source]         y = self.op(x)

`TORCH_LOGS=trace_source`, torch 2.1 to 2.13 (torch/_dynamo/symbolic_convert.py). Of interest where the process died
without a traceback. What stands before is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.numbers import natural
from necropsy_parsers.records import Anchor, Frame, Origin, Record
from necropsy_parsers.text.lines import lines_before
from necropsy_parsers.text.torch_head import origin_of
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "last_traced"
TITLE: Final = "The line that Dynamo traced last"
LITERAL: Final = b"__trace_source"
EVERY: Final = True
MAX_BYTES: Final = 0
READS: Final = (Reads("trace_source", "2.1", "the line traced last, where the log of the process ends there"),)
NEAR: Final = 64 * 1024  # bytes behind a line up to which the log may still end there: launchers tell of the death
KEPT: Final = 64  # lines kept of a process: those of libraries that it went through, and the program's before them
_BEHIND: Final = 3 * NEAR  # bytes that are looked at: a line that near to the end, and those before it
_MARK: Final = b"TRACE starts_line "
_LINE: Final = re.compile(
    rb"^(?P<head>[^\n]{0,300}?)__trace_source(?:\]|: \[\w+\]) TRACE starts_line "
    rb"(?P<file>[^\n]{1,400}?):(?P<line>\d{1,9})(?: in (?P<function>[^\s(]+))?[^\n]*"
    rb"(?:\n(?P=head)__trace_source(?:\]|: \[\w+\]) (?P<code>[^\n]*))?",
    re.MULTILINE,
)
_TRACING: Final = re.compile(rb"\] \[__trace_(?:source|call|bytecode)\]|__trace_(?:source|call|bytecode): \[")


class LastTraced(Record, frozen=True):
    """The last lines that Dynamo traced in one process, the last one last; its compiler logged nothing behind them."""

    frames: tuple[Frame, ...]


class _Process(Struct):
    origin: Origin
    frames: list[Frame] = field(default_factory=list)
    anchor: Anchor = Anchor("", 0, 0, 0)
    closed: bool = False


class Tally:
    """Keeps the last chunks that it was fed, and looks at their lines when no more come."""

    def __init__(self, name: str, first_seq: int) -> None:
        self._name = name
        self._seq = first_seq
        self._processes: dict[tuple[int | None, int | None], _Process] = {}
        self._end = 0
        self._chunks: list[tuple[bytes, int, int]] = []

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Keep a chunk for as long as what it holds may be the last of a process."""
        self._chunks.append((chunk, start, line))
        behind = 0
        for n in range(len(self._chunks) - 1, 0, -1):
            behind += len(self._chunks[n][0])
            if behind > _BEHIND:
                del self._chunks[:n]
                return

    def _read(self, chunk: bytes, start: int, line: int) -> None:
        """Take the last lines of a chunk."""
        self._end = start + len(chunk)
        last = chunk.rfind(_MARK, max(0, len(chunk) - NEAR))
        begin = chunk.rfind(b"\n", 0, max(0, last - NEAR)) + 1
        if last >= 0:
            for m in _LINE.finditer(chunk, begin):
                self._take(m, start, line, chunk)
        self._processes = {k: p for k, p in self._processes.items() if self._end - p.anchor.end <= NEAR}
        for process in self._processes.values():
            process.closed = process.closed or self._goes_on(process, chunk, max(0, process.anchor.end - start))

    def _take(self, m: re.Match[bytes], start: int, line: int, chunk: bytes) -> None:
        origin = origin_of(m["head"], "trace_source")
        process = self._processes.setdefault((origin.rank, origin.pid), _Process(origin))
        file, function, code = ((m[k] or b"").decode("utf-8", "replace").strip() for k in ("file", "function", "code"))
        process.frames = [*process.frames[1 - KEPT :], Frame(file, natural(m["line"].decode()), function, code)]
        process.origin, process.closed = origin, False
        number = line + lines_before(chunk, m.start()) + 1
        first, _, _ = m[0].partition(b"\n")
        quoted = first[first.rfind(_MARK) :].decode("utf-8", "replace").rstrip()
        process.anchor = Anchor(self._name, start + m.start(), start + m.end(), number, quoted)

    @staticmethod
    def _goes_on(process: _Process, chunk: bytes, begin: int) -> bool:
        """Whether the compiler of that process logs anything else behind `begin`."""
        mine = b" %d torch/" % process.origin.pid if process.origin.pid is not None else b"] torch."
        at = chunk.find(mine, begin)
        while at >= 0:
            end = chunk.find(b"\n", at)
            if _TRACING.search(chunk, at, end if end >= 0 else len(chunk)) is None:
                return True
            at = chunk.find(mine, at + 1)
        return False

    def records(self) -> Iterator[Record]:
        """One record a process."""
        for chunk, start, line in self._chunks:
            self._read(chunk, start, line)
        for p in self._processes.values():
            if not p.closed and self._end - p.anchor.end <= NEAR:
                yield LastTraced(p.anchor, tuple(p.frames), origin=p.origin, seq=self._seq + p.anchor.start)
