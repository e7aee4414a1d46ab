"""Flight-recorder dumps: what each rank of a job asked of NCCL (or gloo) last, and what came of it.

PyTorch keeps the last collectives, sends and receives of a process in a ring buffer
(TORCH_NCCL_TRACE_BUFFER_SIZE, later TORCH_FR_BUFFER_SIZE) and writes it when a collective
times out: one file a rank, named `<prefix><rank>`, a pickle of plain data, or JSON when
asked for over HTTP. One entry, as JSON::

    {"pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": 4, "p2p_seq_id": 0,
     "profiling_name": "nccl:all_reduce", "input_sizes": [[3, 4]], "input_dtypes": ["Float"],
     "state": "scheduled", "retired": false, "time_created_ns": 1795964408604960974, "is_p2p": false}

Pickles are read by `necropsy_parsers.safepickle`, which builds plain data and nothing
else. The rank is in the file's name; where sends name their ends, or the groups have one
common member, that is believed instead. A cut dump gives the entries before the cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from necropsy_parsers.flight import (
    Columns,
    FlightCall,
    FlightDump,
    FlightGroup,
    first_of,
    groups_of,
    is_dump,
    status_of,
)
from necropsy_parsers.issues import Issues
from necropsy_parsers.numbers import natural
from necropsy_parsers.records import UNKNOWN, Anchor, Origin, Record
from necropsy_parsers.safepickle import DAMAGED, MAX_BYTES, RefusedPickle, load

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "flight_recorder"
TITLE: Final = "Flight-recorder dumps of PyTorch"
PRIORITY: Final = 200
SAMPLES: Final = (
    '{"pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, "version": "2.10", "entries": [',
)

# A key as pickles of protocol 2 and 3, and of 4 and later, write it.
_KEY: Final = (b"X%c\x00\x00\x00%s", b"\x8c%c%s")
# Kineto's distributedInfo has a pg_config, too; pg_config stands behind all entries in torch's own JSON.
_JSON_KEYS: Final = ((b'"profiling_name"', b'seq_id"'), (b'"pg_config"', b'"pg_status"'))
_END: Final = re.compile(r"(\d{1,7})(?:\.(?:pkl|pickle|json|bin|dump|trace|txt|gz|xz|zst|bz2))*$")
_WORD: Final = re.compile(r"rank[_-]?(\d{1,7})(?!.*rank[_-]?\d)", re.IGNORECASE)


def sniff(head: bytes, name: str) -> str | None:
    """Claims pickles and JSON documents with the recorder's keys."""
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        if _has(head, b"pg_config") and (_has(head, b"version") or _has(head, b"entries")):
            return "pickle with the key pg_config"
        if _has(head, b"profiling_name") and (_has(head, b"pg_id") or _has(head, b"seq_id")):
            return "pickle with the key profiling_name"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] in (b"{", b"[") and any(all(key in text for key in keys) for keys in _JSON_KEYS):
        return "JSON with the keys of a flight recorder"
    return None


def _has(head: bytes, key: bytes) -> bool:
    return any(form % (len(key), key) in head for form in _KEY)


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """One `FlightDump`, if the input holds one."""
    data = _read(source, issues)
    value = _json(data, source.name, issues) if data[:1] != b"\x80" else _pickle(data, source.name, issues)
    if value is None:
        return
    if not is_dump(value):
        issues.add("flight/no-dump", source.name)
        return
    yield replace(_dump(value, source.name, issues, seq), written=_written(source))


def _written(source: Source) -> int:
    """When the file was written that holds it; never before the dump was taken."""
    try:
        return source.path.stat().st_mtime_ns if source.path is not None else 0
    except OSError:
        return 0


def _read(source: Source, issues: Issues) -> bytes:
    """All of a dump; those of 100,000 entries stay below the limit."""
    pieces = []
    room = MAX_BYTES
    for chunk in source.chunks():
        pieces.append(chunk[:room])
        room -= len(pieces[-1])
        if len(pieces[-1]) < len(chunk):
            issues.add("source/limit", source.name, detail=f"a dump of more than {MAX_BYTES >> 20} MiB")
            break
    return b"".join(pieces)


def _pickle(data: bytes, name: str, issues: Issues) -> Any:
    try:
        plain = load(data)
    except RefusedPickle as refusal:
        issues.add("pickle/refused", name, detail=str(refusal))
        return None
    if plain.fault:
        issues.add("flight/damaged" if plain.fault == DAMAGED else "flight/cut", name)
    return plain.value


def _json(data: bytes, name: str, issues: Issues) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        issues.add("flight/cut", name)
        return _first_entries(data.decode("utf-8", "replace"))


def _first_entries(text: str) -> Any:
    """What a cut or damaged JSON dump holds: the entries up to the fault, and pg_config if it stands before them."""
    from json import JSONDecoder

    found: dict[str, Any] = {}
    decoder = JSONDecoder()
    for key in ("version", "pg_config", "pg_status"):
        if (at := re.search(rf'"{key}"\s*:\s*', text)) is not None:
            found[key], _ = _decoded(decoder, text, at.end())
    start = re.search(r'"entries"\s*:\s*\[\s*', text)
    at_byte = start.end() if start else len(text)
    entries = found["entries"] = []
    while True:
        entry, end = _decoded(decoder, text, at_byte)
        if not isinstance(entry, dict):
            return found
        entries.append(entry)
        follows = re.compile(r"\s*,\s*").match(text, end)
        if follows is None:
            return found
        at_byte = follows.end()


def _decoded(decoder: Any, text: str, at: int) -> tuple[Any, int]:
    try:
        value, end = decoder.raw_decode(text, at)
    except (ValueError, RecursionError, IndexError):
        return None, at
    return value, end


def _dump(value: Any, name: str, issues: Issues, seq: int) -> FlightDump:
    listed = value.get("entries") if isinstance(value, dict) else value
    columns = Columns(listed)
    entries = columns.build()
    config = value.get("pg_config") if isinstance(value, dict) else None
    groups = groups_of(config, columns.groups)
    calls = columns.made_calls()
    lost = columns.lost + columns.beyond
    if lost:
        issues.add("flight/entry", name, count=lost, unit="entries")
    rank = _rank(name, groups, [(entries.group[i], calls[c]) for i, c in _sends(entries.call, calls)])
    if rank is None:
        issues.add("flight/no-rank", name)
    return FlightDump(
        anchor=Anchor(name, 0, 0, 1),
        origin=UNKNOWN if rank is None else Origin(rank=rank),
        seq=seq,
        rank=rank,
        version=first_of(value, "version"),
        library=first_of(value, "comm_lib_version", "nccl_version"),
        groups=groups,
        calls=calls,
        stacks=tuple(columns.stacks),
        status=status_of(value.get("pg_status") if isinstance(value, dict) else None),
        entries=entries,
        numbered=columns.numbered or not len(entries),
        whole=not lost and not _faulty(issues, name),
    )


def _faulty(issues: Issues, name: str) -> bool:
    kinds = {"flight/cut", "flight/damaged", "source/limit", "source/truncated", "source/corrupt"}
    return any(i.input == name and i.kind in kinds for i in issues.rows())


def _sends(call: Any, calls: tuple[FlightCall, ...]) -> Iterator[tuple[int, int]]:
    """A few entries whose names tell both ends, as (entry, call)."""
    telling = {c for c, made in enumerate(calls) if made.peer is not None and made.op in ("send", "recv")}
    if telling:
        found = ((i, c) for i, c in enumerate(call) if c in telling)
        yield from (pair for pair, _ in zip(found, range(64), strict=False))


def _rank(name: str, groups: tuple[FlightGroup, ...], sends: list[tuple[int, FlightCall]]) -> int | None:
    """Whose dump it is: by its sends, else by what its groups have in common, else by its name."""
    for group, call in sends:
        members = groups[group].ranks
        own = call.peer[0 if call.op == "send" else 1] if call.peer else len(members)
        if own < len(members):
            return members[own]
    common: set[int] | None = None
    for members in {g.ranks for g in groups if g.ranks}:
        common = set(members) if common is None else common & set(members)
    if common is not None and len(common) == 1:
        return common.pop()
    told = _rank_in(name)
    return told if not common or told in common else None


def _rank_in(name: str) -> int | None:
    file = PurePath(name.replace("\\", "/").rsplit("!", 1)[-1]).name
    found = _END.search(file) or _WORD.search(name)
    return natural(found[1]) if found else None
