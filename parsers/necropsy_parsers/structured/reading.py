"""One pass over a structured log: each entry's head is decoded, the rest only of entries that something reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from hashlib import md5
from typing import Final

import msgspec
from msgspec.structs import replace

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor, Origin, Record
from necropsy_parsers.structured.entry import STREAM, Entry, Head, Interned
from necropsy_parsers.structured.framing import HEAD, Piece, foreign_lines, payload_of, pieces, without_foreign
from necropsy_parsers.structured.kinds import Reader, all_kinds
from necropsy_parsers.text.clean import strip_ansi
from necropsy_parsers.text.naming import Named
from necropsy_parsers.text.stamp import glog_stamp

PREFIX: Final = 600  # bytes of a head before its JSON: time, process, and the path of a source file
SHOWN: Final = 200  # bytes quoted of an entry
_KIND: Final = re.compile(rb'\{\s*"(\w+)"')
_DECODE: Final = msgspec.json.Decoder(Head)
# What torch writes most of, and no reader asks for.
_EVENT: Final = b"chromium_event"
_UNREAD: Final = frozenset({_EVENT, b"describe_storage", b"describe_tensor", b"describe_source", b"expression_created"})
_ANY: Final = msgspec.json.Decoder(msgspec.Raw)
_CONTEXT: Final = frozenset(
    {"rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "has_payload", "stack", "process"}
)


class StructuredReader:
    """Reads one input. `named` is what its name tells of its writer."""

    def __init__(self, name: str, issues: Issues, seq: int, named: Named) -> None:
        self._name, self._issues, self._seq, self._named = name, issues, seq, named
        self._files: dict[int, dict[int, str]] = {}  # strings of each process: several may have written one file
        self._readers: dict[str, Reader] = {kind: make() for kind, make in all_kinds().items()}

    def records(self, chunks: Iterable[bytes]) -> Iterator[Record]:
        """The records of all entries, then what readers were still waiting with."""
        for piece in pieces(chunks, self._passed):
            yield from self._read(piece)
        for reader in dict.fromkeys(self._readers.values()):
            yield from reader.finish()

    def _passed(self, part: bytes) -> bool:
        """Whether an entry, without its V, is one that nothing here reads, and sound: nine of ten are."""
        at = part.find(b'] {"', 0, PREFIX)
        kind = part[at + 4 : part.find(b'"', at + 4, at + 64)]
        if at < 0 or kind not in _UNREAD:
            return False
        end = part.find(b"\n", at)
        try:
            _ANY.decode(part[at + 2 : end] if end >= 0 else part[at + 2 :])
            if end >= 0 and kind == _EVENT:
                _ANY.decode(part[end:])  # the tabs between its lines are blanks to JSON, too
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return False
        return True

    def _read(self, piece: Piece) -> Iterator[Record]:
        data = piece.data
        at = data.find(b"] {", 0, PREFIX)
        end = data.find(b"\n", at) if at >= 0 else 0
        raw = data[at + 2 : end if end >= 0 else len(data)] if at >= 0 else b""
        head = _decoded(raw) if raw else None
        if head is None:
            self._unread(piece)
            return
        if piece.last and data[-1:] != b"\n" and _cut(head, data):
            self._lost(piece, "")
            return
        kind = _kind(raw)
        if kind == "chromium_event":
            if not _whole(data, end):
                self._lost(piece, "a payload is damaged")
            return
        reader = self._readers.get(f"artifact:{head.artifact.name}" if head.artifact is not None else kind)
        if reader is None and head.interned is None:
            return
        m = HEAD.match(data)
        if m is None:
            self._unread(piece)
            return
        if strangers := foreign_lines(data):
            self._foreign(piece, strangers)
            piece = replace(piece, data=without_foreign(data))
        if head.interned is not None:
            yield self._string(piece, int(m["pid"]), *head.interned)
        elif reader is not None:
            yield from reader.read(self._entry(piece, m, kind, head))

    def _string(self, piece: Piece, pid: int, text: str, number: int) -> Record:
        self._files.setdefault(pid, {})[number] = text
        origin = Origin(pid=pid, stream=STREAM)
        return Interned(self._anchor(piece), number, text, origin=origin, seq=self._seq + piece.start)

    def _unread(self, piece: Piece) -> None:
        """Not an entry, or a damaged one."""
        if HEAD.match(piece.data) is not None:
            self._lost(piece, "the JSON of its head is damaged")
        elif piece.data.strip():
            self._foreign(piece, 1 + piece.data.rstrip().count(b"\n"))

    def _entry(self, piece: Piece, m: re.Match[bytes], kind: str, head: Head) -> Entry:
        pid = int(m["pid"])
        origin = Origin(
            rank=head.rank if head.rank is not None else self._named.rank,
            pid=pid,
            stream=STREAM,
            time=glog_stamp(m["time"].decode()),
            compile_id=head.compile_id,
        )
        anchor = self._anchor(piece, len(m[0]) if head.has_payload else 0)
        files = self._files.setdefault(pid, {})
        return Entry(
            kind, head, m["json"], piece.data, anchor, origin, self._seq + piece.start, self._named.attempt, files
        )

    def _foreign(self, piece: Piece, count: int) -> None:
        self._issues.add("structured/foreign", self._name, count=count, unit="lines", first=self._anchor(piece))

    def _lost(self, piece: Piece, detail: str) -> None:
        kind = "structured/cut" if piece.last and piece.data[-1:] != b"\n" else "structured/entry"
        self._issues.add(kind, self._name, detail=detail, first=self._anchor(piece))

    def _anchor(self, piece: Piece, head: int = 0) -> Anchor:
        """The entry; of one with a payload, behind a head of `head` bytes, that."""
        start, line = (
            (head + 1, piece.line + 1) if head and piece.data[head + 1 : head + 2] == b"\t" else (0, piece.line)
        )
        shown = piece.data[start : start + SHOWN].split(b"\n", 1)[0].decode("utf-8", "replace")
        shown = strip_ansi(shown).replace("\t", " ").strip()
        return Anchor(self._name, piece.start + start, piece.start + len(piece.data), line, shown)


def _whole(data: bytes, end: int) -> bool:
    """Whether the payload behind `end`, which is JSON, is whole: tabs between its lines are blanks to JSON, too."""
    if end < 0 or end == len(data) - 1:
        return True
    try:
        _ANY.decode(data[end:])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return b"NaN" in data or b"Infinity" in data
    return True


def _decoded(raw: bytes) -> Head | None:
    """The head's JSON; Python's own reader takes NaN and Infinity, which metrics may hold."""
    try:
        return _DECODE.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        if b"NaN" not in raw and b"Infinity" not in raw:
            return None
    try:
        return msgspec.convert(json.loads(raw, parse_constant=lambda _: None), Head)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _kind(raw: bytes) -> str:
    """The entry's own key: torch writes it first, filters may have put it elsewhere."""
    m = _KIND.match(raw)
    kind = m[1].decode() if m is not None else ""
    if kind and kind not in _CONTEXT:
        return kind
    try:
        return next((k for k in msgspec.json.decode(raw, type=dict[str, msgspec.Raw]) if k not in _CONTEXT), "")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""


def _cut(head: Head, data: bytes) -> bool:
    """Whether the last entry, which no newline ends, misses a part: its payload has a checksum."""
    if not head.has_payload:
        return False
    told, text = head.has_payload, payload_of(data)
    return not text or (isinstance(told, str) and md5(text.encode(), usedforsecurity=False).hexdigest() != told)
