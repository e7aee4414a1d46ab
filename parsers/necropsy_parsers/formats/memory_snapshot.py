"""Memory snapshots of torch: what its CUDA allocator held, from which lines, and how it came to that.

`torch.cuda.memory._dump_snapshot("snapshot.pickle")` writes one, best after `_record_memory_history()`: a pickle of
plain data, which some programs write as JSON. One segment with its block, as JSON::

    {"device": 0, "address": 140024081285120, "total_size": 2097152, "segment_type": "small",
     "blocks": [{"address": 140024081285120, "size": 512, "requested_size": 4, "state": "active_allocated",
     "frames": [{"name": "forward", "filename": "/home/trainer/vit/net.py", "line": 41}]}]}

Pickles are read by `necropsy_parsers.safepickle`, which builds plain data and nothing else. Of files that are larger
than it reads, the beginning is read: segments and their blocks stand first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import UNKNOWN, Anchor, Origin, Record
from necropsy_parsers.safepickle import DAMAGED, MAX_BYTES, RefusedPickle, load

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "memory_snapshot"
TITLE: Final = "Memory snapshots of torch"
PRIORITY: Final = 210
SAMPLES: Final = (
    '{"segments": [{"device": 0, "address": 1, "total_size": 2097152, "segment_type": "small", "blocks": [{"size": 512',
)

_KEY: Final = (b"X%c\x00\x00\x00%s", b"\x8c%c%s")  # as pickles of protocol 2 and 3, and of 4 and later, write it
_PICKLED: Final = (b"segments", b"device_traces", b"total_size", b"segment_type")
_RANK: Final = re.compile(r"rank[_-]?(\d{1,7})", re.IGNORECASE)


def sniff(head: bytes, name: str) -> str | None:
    """Claims pickles and JSON documents with the allocator's keys."""
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        told = [key for key in _PICKLED if any(form % (len(key), key) in head for form in _KEY)]
        if len(told) >= 2:
            return "pickle with the keys of torch's memory snapshots"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] in (b"{", b"[") and b'"total_size"' in text and b'"segment_type"' in text and b'"blocks"' in text:
        return "JSON with the keys of torch's memory snapshots"
    return None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """One record a device."""
    from necropsy_parsers.snapshot.reading import is_snapshot

    data, whole = _read(source, issues)
    value = _json(data, source.name, issues) if data[:1] != b"\x80" else _pickle(data, source.name, issues, whole)
    if value is None:
        return
    if not is_snapshot(value):
        issues.add("snapshot/none", source.name)
        return
    whole &= not any(i.input == source.name and i.kind == "snapshot/cut" for i in issues.rows())
    yield from _devices(value, source.name, seq, whole)


def _devices(value: Any, name: str, seq: int, whole: bool) -> Iterator[Record]:
    from necropsy_parsers.snapshot.model import MemorySnapshot
    from necropsy_parsers.snapshot.reading import Blocks, Stacks, history_of, parts_of, summed
    from necropsy_parsers.snapshot.replay import peak_of

    settings = value.get("allocator_settings") if isinstance(value, dict) else None
    rank = _RANK.findall(PurePath(name.replace("\\", "/").rsplit("!", 1)[-1]).name)
    for device, segments, events in parts_of(value):
        stacks = Stacks()
        blocks = Blocks(stacks)
        for segment in segments:
            blocks.add(segment)
        history, refused = history_of(events, stacks)
        yield MemorySnapshot(
            anchor=Anchor(name, 0, 0, 1),
            origin=Origin(rank=int(rank[-1])) if rank else UNKNOWN,
            seq=seq,
            device=device,
            stacks=tuple(stacks.stacks),
            segments=tuple(blocks.segments),
            live=summed(blocks.live.values()),
            waiting=blocks.waiting,
            history=history,
            peak=peak_of(history, blocks.live) if whole else None,
            refused=tuple(refused),
            settings=_settings(settings),
            whole=whole,
        )


def _settings(value: Any) -> dict[str, str]:
    from necropsy_parsers.flight import printable

    told = value if isinstance(value, dict) else {}
    return {
        printable(k): printable(str(v)) for k, v in told.items()
        if isinstance(k, str) and isinstance(v, (str, int, float))
    }  # fmt: skip


def _read(source: Source, issues: Issues) -> tuple[bytes, bool]:
    """The bytes, and whether that is all of them."""
    pieces = []
    room = MAX_BYTES
    for chunk in source.chunks():
        pieces.append(chunk[:room])
        room -= len(pieces[-1])
        if len(pieces[-1]) < len(chunk):
            issues.add("snapshot/large", source.name, detail=f"more than {MAX_BYTES >> 20} MiB")
            return b"".join(pieces), False
    return b"".join(pieces), True


def _pickle(data: bytes, name: str, issues: Issues, whole: bool) -> Any:
    try:
        plain = load(data)
    except RefusedPickle as refusal:
        issues.add("pickle/refused", name, detail=str(refusal))
        return None
    if plain.fault and whole:
        issues.add("snapshot/cut", name, detail="damaged" if plain.fault == DAMAGED else "")
    return plain.value


def _json(data: bytes, name: str, issues: Issues) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        issues.add("snapshot/cut", name)
        return None
