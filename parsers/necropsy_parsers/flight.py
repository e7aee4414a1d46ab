"""One rank's flight-recorder dump, as plain data, to a `FlightDump` of columns.

A dump of 2,000 entries becomes a dozen arrays and three small tables (groups, calls,
stacks) that the entries point into: 512 dumps then fit in memory, and two ranks compare
by comparing numbers. Field names as PyTorch changed them::

    2.2   a list of entries: pg_id seq_id profiling_name time_created_us input_sizes output_sizes state retired frames
    2.3   {version 1.4, pg_config {pg_id: [ranks]}, entries}: record_id op_id time_created_ns time_discovered_*_ns
    2.4   {version 2.x, pg_config {name: {name desc ranks}}}: process_group collective_seq_id p2p_seq_id is_p2p *_dtypes
    2.5   pg_status, timeout_ms; 2.9 thread_name thread_id; JSON has 0 for "not yet" and no frames

Everything is taken with care: a hostile dump may hold anything anywhere, and a list may
stand in itself or a million times in another.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct, field

from necropsy_parsers.records import Frame, Record
from necropsy_parsers.text.clean import strip_ansi

SCHEDULED: Final = 0
STARTED: Final = 1
COMPLETED: Final = 2
RETIRED: Final = 4  # added to the state: the watchdog has let go of it (gloo marks nothing else)
STATES: Final = ("scheduled", "started", "completed")

MAX_ENTRIES: Final = 200_000
MAX_FRAMES: Final = 256
MAX_TENSORS: Final = 256
MAX_DIMS: Final = 16
MAX_RANKS: Final = 200_000
MAX_GROUPS: Final = 10_000
_FAR: Final = 1 << 62

_PEERS: Final = re.compile(r"(\d{1,7})\s*(->|<-)\s*(\d{1,7})$")


class FlightGroup(Struct, frozen=True):
    """A process group: its name, what the program calls it, and its members (global ranks, () if not told)."""

    name: str
    description: str = ""
    ranks: tuple[int, ...] = ()

    def __str__(self) -> str:
        told = self.description not in ("", "undefined")
        return f"group {self.name}" + (f" ({self.description})" if told else "")


class FlightCall(Struct, frozen=True):
    """What an entry asked for; `peer` is the (source, destination) of a send or recv, as ranks of the group."""

    op: str
    input_sizes: tuple[tuple[int, ...], ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    input_types: tuple[str, ...] = ()
    output_types: tuple[str, ...] = ()
    peer: tuple[int, int] | None = None


class FlightStatus(Struct, frozen=True):
    """The watchdog's counters of a group: last enqueued, started, completed sequence number (-1: none)."""

    enqueued: int = -1
    started: int = -1
    completed: int = -1


def _no_longs() -> array[int]:
    return array("q")


def _no_ints() -> array[int]:
    return array("i")


class FlightColumns(Struct, frozen=True):
    """The entries, oldest first; `group`, `call` and `stack` are indexes into the dump's tables, times ns since 1970.

    `sequence` counts a group's collectives; `p2p` is the sequence number of a send, recv
    or batch of them, and -1 for collectives. A time of 0 is not known (yet), a `stack`
    of -1 was not recorded.
    """

    record: array[int] = field(default_factory=_no_longs)
    group: array[int] = field(default_factory=_no_ints)
    local_group: array[int] = field(default_factory=_no_longs)
    sequence: array[int] = field(default_factory=_no_longs)
    p2p: array[int] = field(default_factory=_no_longs)
    call: array[int] = field(default_factory=_no_ints)
    stack: array[int] = field(default_factory=_no_ints)
    state: bytes = b""
    created: array[int] = field(default_factory=_no_longs)
    started: array[int] = field(default_factory=_no_longs)
    completed: array[int] = field(default_factory=_no_longs)

    def __len__(self) -> int:
        return len(self.state)


class FlightDump(Record, frozen=True):
    """The dump of one rank.

    `groups` are those that entries name first, then the others of pg_config; `status` is
    keyed by the rank's own number of a group (`local_group` of its entries). `numbered`:
    whether collectives and sends have counters of their own (PyTorch 2.4 and later).
    `written`: ns since 1970 when its file was last written, 0 if not known; a copy's is later than the dump's own.
    """

    rank: int | None
    version: str
    library: str
    groups: tuple[FlightGroup, ...]
    calls: tuple[FlightCall, ...]
    stacks: tuple[tuple[Frame, ...], ...]
    status: dict[int, FlightStatus]
    entries: FlightColumns
    numbered: bool
    whole: bool = True
    written: int = 0


def is_dump(value: Any) -> bool:
    """Whether plain data looks like a dump."""
    if isinstance(value, dict):
        entries = value.get("entries")
        return isinstance(value.get("pg_config"), dict) or (isinstance(entries, list) and _some_entry(entries))
    return isinstance(value, list) and _some_entry(value)


def _some_entry(entries: list[Any]) -> bool:
    return any(isinstance(e, dict) and "profiling_name" in e for e in entries[:8])


class Columns:
    """Builds the columns of a dump; `lost` counts entries that lacked what they need."""

    def __init__(self, entries: Any) -> None:
        listed = entries if isinstance(entries, list) else []
        self.beyond = max(0, len(listed) - MAX_ENTRIES)
        listed = listed[-MAX_ENTRIES:]
        self.rows = [e for e in listed if isinstance(e, dict) and _told(e)]
        self.lost = len(listed) - len(self.rows)
        self.numbered = any("collective_seq_id" in e for e in self.rows[:1])
        self._cleaned: dict[str, str] = {}
        self.groups: dict[tuple[str, str], int] = {}
        self._pairs: dict[tuple[str, str], int] = {}
        self.calls: dict[Hashable, int] = {}
        self._calls: list[FlightCall] = []
        self._stacks: dict[tuple[int, ...], int] = {}
        self._frames: dict[int, Frame] = {}
        self.stacks: list[tuple[Frame, ...]] = []

    def build(self) -> FlightColumns:
        """The columns."""
        of = _fields(self.rows)
        sends = _longs(of["p2p_seq_id"])
        call = array("i", map(self._call, *(of[k] for k in _ASKED)))
        ends = [self._calls[c].peer is not None for c in call]
        told = zip(of["is_p2p"], ends, sends, strict=True)
        return FlightColumns(
            record=_longs(of["record_id"]),
            group=array("i", map(self._group, of["process_group"], of["pg_id"])),
            local_group=_longs(of["pg_id"]),
            sequence=_longs(of["collective_seq_id" if self.numbered else "seq_id"]),
            p2p=array("q", [number if sent is True or end else -1 for sent, end, number in told]),
            call=call,
            stack=array("i", map(self._stack, of["frames"])),
            state=bytes(map(_state, of["state"], of["retired"])),
            created=self._created(of["time_created_ns"]),
            started=_longs(of["time_discovered_started_ns"]),
            completed=_longs(of["time_discovered_completed_ns"]),
        )

    def made_calls(self) -> tuple[FlightCall, ...]:
        """What the `call` column points into."""
        return tuple(self._calls)

    def _created(self, values: Sequence[Any]) -> array[int]:
        if self.rows and "time_created_ns" not in self.rows[0]:
            return array("q", [whole_number(e.get("time_created_us")) * 1000 for e in self.rows])
        return _longs(values)

    def text(self, value: Any) -> str:
        """A string that is safe to print."""
        if not isinstance(value, str):
            return ""
        known = self._cleaned.get(value)
        if known is None:
            known = self._cleaned[value] = printable(value)
        return known

    def _group(self, pair: Any, number: Any) -> int:
        key = ("", "")
        # Exactly two strings: hashing what a hostile pickle nests in tuples may take for ever.
        if isinstance(pair, (tuple, list)) and len(pair) == 2 and type(pair[0]) is str and type(pair[1]) is str:
            key = (pair[0], pair[1])
        known = self._pairs.get(key)
        if known is None or key == ("", ""):
            named = (self.text(key[0]), self.text(key[1]))
            if key == ("", "") and pair is None:
                named = (str(whole_number(number)), "")
            known = self._pairs[key] = self.groups.setdefault(named, len(self.groups))
        return known

    def _call(self, name: str, inputs: Any, outputs: Any, input_types: Any, output_types: Any) -> int:
        key: Hashable
        try:
            key = (name, _sizes(inputs), _sizes(outputs), _types(input_types), _types(output_types))
            known = self.calls.get(key)
        except TypeError:  # not there, or no lists
            key = (name, (), (), (), ())
            known = self.calls.get(key)
        if known is None:
            known = self.calls[key] = len(self._calls)
            self._calls.append(self._made(*key))
        return known

    def _made(self, name: str, inputs: Any, outputs: Any, input_types: Any, output_types: Any) -> FlightCall:
        words = self.text(name).rpartition(":")[2].strip()  # the backend stands before the colon
        peer = _PEERS.search(words)
        pair = None
        if peer is not None:
            a, b = int(peer[1]), int(peer[3])
            pair = (a, b) if peer[2] == "->" else (b, a)
        return FlightCall(
            words.split(" ", 1)[0],
            _numbers(inputs),
            _numbers(outputs),
            tuple(self.text(t) for t in input_types),
            tuple(self.text(t) for t in output_types),
            pair,
        )

    def _stack(self, frames: Any) -> int:
        if not isinstance(frames, list) or not frames:
            return -1
        kept = frames[:MAX_FRAMES]
        key = tuple(map(id, kept))  # torch writes each distinct frame once and refers to it
        known = self._stacks.get(key)
        if known is None:
            known = self._stacks[key] = len(self.stacks)
            self.stacks.append(tuple(self._frame(f) for f in kept if isinstance(f, dict)))
        return known

    def _frame(self, frame: dict[str, Any]) -> Frame:
        known = self._frames.get(id(frame))
        if known is None:
            line = whole_number(frame.get("line"))
            known = Frame(self.text(frame.get("filename")), line if line > 0 else None, self.text(frame.get("name")))
            self._frames[id(frame)] = known
        return known


def _told(entry: dict[str, Any]) -> bool:
    """Whether an entry says what it is; the last one of a cut dump may not."""
    return isinstance(entry.get("profiling_name"), str) and isinstance(entry.get("state"), str)


def _fields(rows: Sequence[dict[str, Any]]) -> dict[str, Sequence[Any]]:
    """The fields of all entries by name, None for those that are not there."""
    try:
        return dict(zip(_FIELDS, zip(*map(itemgetter(*_FIELDS), rows), strict=True), strict=True))
    except (KeyError, ValueError):  # of another version, or no entries at all
        return {field: [e.get(field) for e in rows] for field in (*_FIELDS, "seq_id")}


_ASKED: Final = ("profiling_name", "input_sizes", "output_sizes", "input_dtypes", "output_dtypes")
_FIELDS: Final = (
    "record_id", "pg_id", "process_group", "collective_seq_id", "p2p_seq_id", "is_p2p", *_ASKED, "state", "retired",
    "frames", "time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns",
)  # fmt: skip


def _longs(values: Sequence[Any]) -> array[int]:
    try:
        return array("q", [v or 0 for v in values])  # None: not yet
    except (TypeError, OverflowError):
        return array("q", [whole_number(v) for v in values])


def _state(state: str, retired: Any) -> int:
    number = _STATE_NUMBERS.get(state, SCHEDULED)
    return number | RETIRED if retired is True else number


_STATE_NUMBERS: Final = {name: number for number, name in enumerate(STATES)}


def _sizes(value: Any) -> tuple[Any, ...]:
    """Shapes as tuples, at most so many and so long."""
    return tuple([tuple(x[:MAX_DIMS]) for x in value[:MAX_TENSORS]])


def _types(value: Any) -> tuple[Any, ...]:
    return tuple(value[:MAX_TENSORS]) if value else ()


def _numbers(shapes: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(whole_number(n) for n in shape) for shape in shapes)


def whole_number(value: Any) -> int:
    """An integer of 62 bits; 0 for anything else. JSON dumps write the numbers of pg_status as strings."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    return value if isinstance(value, int) and -_FAR < value < _FAR else 0


def printable(text: str) -> str:
    """A string without control characters and lone surrogates, shortened to what a path may have."""
    return strip_ansi(text[:4096]).encode("utf-8", "replace").decode("utf-8")


def groups_of(config: Any, named: Iterable[tuple[str, str]]) -> tuple[FlightGroup, ...]:
    """The groups that entries name, in order, then the others of pg_config."""
    members: dict[str, tuple[str, tuple[int, ...]]] = {}
    read: dict[Any, tuple[int, ...]] = {}
    for key, value in islice((config if isinstance(config, dict) else {}).items(), MAX_GROUPS):
        told = value if isinstance(value, dict) else {"ranks": value}
        name = told.get("name", key)
        name = printable(name) if isinstance(name, str) else str(whole_number(name))
        description = told.get("desc")
        ranks = told.get("ranks")
        same = ranks if isinstance(ranks, str) else id(ranks)
        if same not in read:
            read[same] = _ranks(ranks)
        members[name] = (printable(description) if isinstance(description, str) else "", read[same])
    found = []
    listed = set()
    for name, description in named:
        known = members.get(name, ("", ()))
        found.append(FlightGroup(name, description or known[0], known[1]))
        listed.add(name)
    found += [FlightGroup(n, d, r) for n, (d, r) in members.items() if n not in listed and r]
    return tuple(found)


def _ranks(value: Any) -> tuple[int, ...]:
    """`[0, 1]`, or the same as text."""
    if isinstance(value, str):
        return tuple(int(m[0]) for m in islice(re.finditer(r"\d{1,7}", value), MAX_RANKS))
    if isinstance(value, (list, tuple)):
        return tuple(whole_number(n) for n in value[:MAX_RANKS])
    return ()


def status_of(value: Any) -> dict[int, FlightStatus]:
    """The watchdog's counters by the rank's own number of the group."""
    found = {}
    keys = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
    for key, counts in islice((value if isinstance(value, dict) else {}).items(), MAX_GROUPS):
        if isinstance(counts, dict):
            found[whole_number(key)] = FlightStatus(*(whole_number(counts.get(k, -1)) for k in keys))
    return found


def first_of(mapping: Any, *keys: str, clean: Callable[[str], str] = printable) -> str:
    """The first of these keys that holds text."""
    found = (mapping.get(k) for k in keys) if isinstance(mapping, dict) else ()
    return next((clean(v) for v in found if isinstance(v, str) and v), "")
