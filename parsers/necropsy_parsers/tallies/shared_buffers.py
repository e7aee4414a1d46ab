"""Refusals for "no shared data" of operations that do share a buffer, but reach for its elements differently.

[0/0] [__ir_pre_fusion] op0.writes = [MemoryDep('buf0', c0, {c0: 4096})]
[0/0] [__ir_pre_fusion] op4.unmet_dependencies = [MemoryDep('buf0', 64*c0 + c1, {c0: 64, c1: 16})]
[0/0] [__fusion] cannot fuse op0 with op4: no shared data

`TORCH_LOGS=fusion,ir_pre_fusion`, torch 2.7 to 2.13: to the scheduler data are shared if both index them alike
(`score_fusion_memory`, torch/_inductor/scheduler.py). Lists of several dependencies stand below their name, one a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.grammars.ir import difference
from necropsy_parsers.records import UNKNOWN, Anchor, Frame, Origin, Record
from necropsy_parsers.tallies import Found, places
from necropsy_parsers.text.lines import lines_before
from necropsy_parsers.text.torch_head import frames_at, origin_of
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "shared_buffers"
TITLE: Final = "Operations that share a buffer and were not fused"
_IR: Final = b"__ir_pre_fusion"
LITERALS: Final = (_IR,)
ALSO: Final = (b"__fusion",)
MAX_BYTES: Final = 0
READS: Final = (
    Reads("ir_pre_fusion", "2.7", "what operations read and write, for refusals of those that share a buffer"),
)
MAX_PAIRS: Final = 1_000
BEHIND: Final = 1 << 20  # bytes of text before a chunk in which stacks are looked for
MAX_OPERATIONS: Final = 20_000
_BEFORE: Final = b"__ir_pre_fusion] BEFORE FUSION"
_OPERATION: Final = b"__ir_pre_fusion] op"
_DEPENDENCY: Final = b"MemoryDep('"
_REFUSED: Final = b": no shared data"
_FUSED: Final = b"__fusion] fusing "
PLACED: Final = (_BEFORE, _OPERATION, _DEPENDENCY, _REFUSED, _FUSED)
_LIST: Final = re.compile(rb"__ir_pre_fusion\] (?P<op>op\w+)\.(?P<what>\w+) = ?")
_DEP: Final = re.compile(rb"MemoryDep\('(?P<buffer>\w+)', [^\n{]{1,600}?, \{[^}\n]*\}[^)\n]*\)")
_PAIR: Final = re.compile(
    rb"__fusion\] (?:cannot fuse (?P<first>\S+) with (?P<second>\S+): no shared data"
    rb"|fusing (?P<a>\S+) with (?P<b>\S+))"
)
_READS: Final = (b"unmet_dependencies", b"met_dependencies")

Who = tuple[int | None, int | None, str]


class SharedBuffer(Record, frozen=True):
    """Two operations that were not fused: the first writes `buffer` by one index, the second reads it by another.

    `wrote` and `read` are the accesses as printed, `first` and `second` stacks, empty where none is told.
    """

    buffer: str
    wrote: str
    read: str
    count: int
    nodes: tuple[str, str]
    first: tuple[Frame, ...]
    second: tuple[Frame, ...]

    @property
    def difference(self) -> tuple[str, str]:
        """How the second reads what the first wrote, in words, and the kind of difference."""
        return difference(self.wrote, self.read)


class _Graph(Struct):
    """What the operations of one graph write and read, by buffer; which were fused in the end."""

    number: int
    writes: dict[bytes, dict[bytes, list[bytes]]] = field(default_factory=dict)
    reads: dict[bytes, dict[bytes, list[bytes]]] = field(default_factory=dict)
    fused: list[frozenset[bytes]] = field(default_factory=list)


class _Found(Struct):
    graph: _Graph
    anchor: Anchor
    origin: Origin
    wrote: bytes
    read: bytes
    first: tuple[Frame, ...]
    second: tuple[Frame, ...]
    count: int = 0


class Tally:
    """Reads the operations of each graph, then looks at refusals of pairs that share a buffer."""

    found: Found = staticmethod(places)

    def __init__(self, name: str, first_seq: int) -> None:
        self._name = name
        self._seq = first_seq
        self._graphs: dict[Who, _Graph] = {}
        self._found: dict[tuple[Who, int, bytes, bytes, bytes], _Found] = {}
        self._into: dict[bytes, list[bytes]] | None = None  # where dependencies of the list that is being read go
        self._before = b""
        self._operations = 0
        self._head = (b"", UNKNOWN)

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Take the operations and refusals of a chunk.

        To look for each word takes a tenth of the time of one expression for all lines; most lines hold code.
        """
        for at, word in sorted((at, w) for w in PLACED for at in self.found(chunk, w)):
            if word is _DEPENDENCY:
                if self._into is not None:
                    self._depends(chunk, at)
                continue
            begin = chunk.rfind(b"\n", 0, at) + 1
            mark = chunk.find(b"__fusion] ", begin, at) if word is _REFUSED else at
            m = (
                (_LIST if word is _OPERATION else _PAIR).match(chunk, mark)
                if mark >= 0 and word is not _BEFORE
                else None
            )
            if m is None and word is not _BEFORE:
                continue
            self._into = None
            origin = self._origin(chunk[begin:mark])
            who = (origin.rank, origin.pid, origin.compile_id)
            if m is None:
                self._graphs[who] = _Graph(self._graphs[who].number + 1 if who in self._graphs else 0)
            elif (graph := self._graphs.get(who)) is None:
                continue
            elif word is _OPERATION:
                self._list(graph, m["op"], m["what"])
            elif word is _FUSED:
                graph.fused.append(frozenset((*_members(m["a"]), *_members(m["b"]))))
            else:
                self._refused(chunk, m, start, line, graph, origin)
        # A pipe gives few lines at a time: what stood before is kept as far as a list of candidates may reach.
        self._before = chunk if len(chunk) >= BEHIND else (self._before + chunk)[-BEHIND:]

    def _origin(self, head: bytes) -> Origin:
        """Whose line it is; most lines have the head of the one before."""
        if head != self._head[0]:
            self._head = (head, origin_of(head, "fusion"))
        return self._head[1]

    def _depends(self, chunk: bytes, at: int) -> None:
        """A dependency of the list that is being read."""
        begin = chunk.rfind(b"\n", 0, at) + 1
        dep = _DEP.match(chunk, at) if chunk.find(_IR, begin, at) >= 0 else None
        if dep is not None and self._into is not None:
            self._into.setdefault(dep["buffer"], []).append(dep[0])

    def _refused(self, chunk: bytes, m: re.Match[bytes], start: int, line: int, graph: _Graph, origin: Origin) -> None:
        """A refusal; of interest if one of the two writes what the other reads."""
        who = (origin.rank, origin.pid, origin.compile_id)
        for writer, reader, buffer, wrote, read in _shared(graph, m["first"], m["second"]):
            key = (who, graph.number, writer, reader, buffer)
            if key not in self._found and len(self._found) < MAX_PAIRS:
                begin = chunk.rfind(b"\n", 0, m.start()) + 1
                number = line + lines_before(chunk, begin) + 1
                said = chunk[m.start() : m.end()].split(b" ", 1)[1].decode("utf-8", "replace")
                anchor = Anchor(self._name, start + begin, start + m.end(), number, said)
                stacks = [self._stack(chunk, m.start(), n, who) for n in (writer, reader)]
                self._found[key] = _Found(graph, anchor, origin, wrote, read, stacks[0], stacks[1])
            if key in self._found:
                self._found[key].count += 1

    def _list(self, graph: _Graph, name: bytes, what: bytes) -> None:
        """Opens a list of dependencies."""
        table = graph.writes if what == b"writes" else graph.reads if what in _READS else None
        if table is not None and (name in table or self._operations < MAX_OPERATIONS):
            self._operations += name not in table
            self._into = table.setdefault(name, {})

    def _stack(self, chunk: bytes, end: int, name: bytes, who: Who) -> tuple[Frame, ...]:
        """The stack of an operation in the list of candidates before the refusal."""
        node = b"(name='" + name + b"')"
        for text, stop in ((chunk, end), (self._before, len(self._before))):
            position = text.rfind(node, 0, stop)
            while position >= 0:
                begin = text.rfind(b"\n", 0, position) + 1
                mark = text.find(b"__fusion", begin, position)
                if mark >= 0:
                    o = origin_of(text[begin:mark], "fusion")
                    if (o.rank, o.pid, o.compile_id) == who:
                        return frames_at(text, position)
                position = text.rfind(node, 0, position)
        return ()

    def records(self) -> Iterator[Record]:
        """One record a pair and buffer; of pairs that were fused in a later round nothing."""
        for (_, _, writer, reader, buffer), found in self._found.items():
            if any(writer in names and reader in names for names in found.graph.fused):
                continue
            yield SharedBuffer(
                found.anchor,
                buffer.decode(),
                found.wrote.decode("utf-8", "replace"),
                found.read.decode("utf-8", "replace"),
                found.count,
                (writer.decode(), reader.decode()),
                found.first,
                found.second,
                origin=found.origin,
                seq=self._seq + found.anchor.start,
            )


def _members(name: bytes) -> list[bytes]:
    return re.split(rb"_(?=op\d)", name)


def _shared(graph: _Graph, first: bytes, second: bytes) -> Iterator[tuple[bytes, bytes, bytes, bytes, bytes]]:
    """Writer, reader, buffer and both accesses of what one operation writes and the other reads by another index."""
    for a in _members(first):
        for b in _members(second):
            for writer, reader in ((a, b), (b, a)):
                reads = graph.reads.get(reader, {})
                for buffer, wrote in graph.writes.get(writer, {}).items():
                    read = reads.get(buffer, [])
                    if read and wrote[0] not in read:
                        yield writer, reader, buffer, wrote[0], read[0]
