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
from necropsy_parsers.structured.kinds import Module, all_modules, readers
from necropsy_parsers.text.clean import strip_ansi
from necropsy_parsers.text.naming import Named
from necropsy_parsers.text.stamp import glog_stamp

PREFIX: Final = 600  # bytes of a head before its JSON: time, process, and the path of a source file
SHOWN: Final = 200  # bytes quoted of an entry
_KIND: Final = re.compile(rb'\{\s*"(\w+)"')
_DECODE: Final = msgspec.json.Decoder(Head)
_EVENT: Final = b"chromium_event"
_ANY: Final = msgspec.json.Decoder(msgspec.Raw)
_CONTEXT: Final = frozenset(
    {"rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "has_payload", "stack", "process"}
)


class StructuredReader:
    """Reads one input. `named` is what its name tells of its writer.

    With `postpone`, what nobody may ask for is left out, and `awaits` tells whether there was such; a reader of those
    `modules` alone reads it.
    """

    def __init__(
        self,
        name: str,
        issues: Issues,
        seq: int,
        named: Named,
        *,
        modules: Iterable[Module] | None = None,
        postpone: bool = False,
    ) -> None:
        self._name, self._issues, self._seq, self._named = name, issues, seq, named
        self._files: dict[int, dict[int, str]] = {}  # strings of each process: several may have written one file
        given = all_modules() if modules is None else modules
        self._readers = readers(m for m in given if not (postpone and m.postponed))
        self._later = frozenset(kind for m in given if postpone and m.postponed for kind in m.kinds)
        self.awaits = False
        # Entries whose own key is none of these, or a word about all entries, are passed over undecoded.
        self._keys = frozenset(k.encode() for k in (*self._readers, *_CONTEXT, "str", "artifact"))

    def records(self, chunks: Iterable[bytes]) -> Iterator[Record]:
        """The records of all entries, then what readers were still waiting with."""
        for piece in pieces(chunks, self._passed):
            yield from self._read(piece)
        for reader in dict.fromkeys(self._readers.values()):
            yield from reader.finish()

    def _passed(self, opening: re.Match[bytes], stop: int) -> bool:
        """Whether an entry is one that nothing here reads, and sound: most are."""
        kind, name = opening.group(1, 2)  # by number: there are tens of thousands
        if kind == b"artifact" and name is not None:
            kind = b"artifact:" + name
        if kind is None or kind in self._keys:
            return False
        data, begin = opening.string, opening.start(1) - len(b'{"')
        end = data.find(b"\n", begin, stop)
        try:
            _ANY.decode(data[begin : end if end >= 0 else stop])
            if end >= 0 and kind == _EVENT:
                _ANY.decode(data[end:stop])  # the tabs between its lines are blanks to JSON, too
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return False
        if not self.awaits:
            self._await(kind.decode())
        return True

    def _await(self, kind: str) -> None:
        self.awaits = self.awaits or kind in self._later

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
        full = f"artifact:{head.artifact.name}" if head.artifact is not None else kind
        self._await(full)
        reader = self._readers.get(full)
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
        seq, attempt = self._seq + piece.start, self._named.attempt
        return Entry(kind, head, m["json"], piece.data, anchor, origin, seq, attempt, files)

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
