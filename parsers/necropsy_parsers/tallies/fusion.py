"""Fusion log of Inductor's scheduler: which pairs of nodes it refused to fuse, why, and from which lines they come.

[0/0] [__fusion] ===== attempting fusion (1/10): 143 nodes =====
[0/0] [__fusion]   SchedulerNode(name='op0'), Pointwise(['[4, 512]', 'stack_traces = {', '  File "a.py", line 5, in f',
[0/0] [__fusion] cannot fuse op0 with op35: intermediate nodes between node1 & node2
[0/0] [__fusion] fusing op0 with op3

`TORCH_LOGS=fusion`, since torch 2.2 (`torch._inductor.scheduler.__fusion: [DEBUG] ` before 2.3). The stacks stand in
the lists of candidates of recent releases; with older ones the lines stay unknown. A model of 150 nodes prints
thousands of lines a graph, hence a tally. Node names begin anew with each graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from necropsy_parsers.records import Anchor, Frame, Origin, Record
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "fusion"
TITLE: Final = "Inductor's fusion log"
LITERAL: Final = b"__fusion"
READS: Final = (
    Reads("fusion", "2.2", "refusals with reason, pairs fused, graphs; stacks where candidates are listed"),
)

_MARK: Final = re.compile(rb"__fusion(?:\]|: \[\w+\]) ?")
_REFUSED: Final = re.compile(rb"cannot fuse (\S+) with (\S+): (.+)")
_ROUND: Final = re.compile(rb"===== attempting fusion \((\d+)/")
_HEAD: Final = re.compile(
    rb"(?:.*?\[rank(?P<rank>\d+)\]:)?.*?(?:[VIWEC]\d{4} \S+ +(?P<pid>\d+) \S+\]|\[[\d :,-]+\])"
    rb"(?: \[(?P<cid>[\d/_!-]+)\])?"
)
_NODE: Final = re.compile(rb" *(?:\w+)\(name='(\w+)'\)")
_FRAME: Final = re.compile(
    rb"File \\*\"(?P<file>[^\"\\]+)\\*\", line (?P<line>\d+), in (?P<function>[\w<>]+)"
    rb"\\*['\"], \\*['\"] *(?P<text>[^\n]{0,200}?)\\*['\"], "
)
_STACK: Final = b"stack_traces = {"
# What is true of most pairs in any graph and nothing to act on (WhyNoFuse, torch/_inductor/scheduler.py 2.2 to 2.13).
_TRIVIAL: Final = re.compile(
    r"no shared data$|intermediate nodes between|node[12] (?:is|must)|will create cycle|grouped node|templates? "
    r"|candidate (?:producer|consumer)|foreach do not|prologue fusion|epilogue fusion"
)
_NUMBERS: Final = re.compile(r"(?<![a-zA-Z])\d+|\((?=[\d(s])(?:[^()]|\([^()]*\))*\)(?:, )?")  # of sizes
MAX_PAIRS: Final = 5_000  # distinct (reason, line, line) kept an input; further ones are only counted by reason
MAX_NODES: Final = 50_000  # nodes of the graphs that are being scheduled
MAX_FRAMES: Final = 8  # innermost frames kept of a node's stack

Stack = tuple[Frame, ...]  # outermost first


@dataclass(frozen=True, slots=True)
class FusionRefusal(Record):
    """Refusals for one `reason` between two lines; `first` and `second` are stacks, empty where none is told.

    `detail` is the reason as printed for the first such pair, `nodes` that pair; `trivial` ones say nothing about
    the program and are counted over all lines.
    """

    reason: str
    detail: str
    trivial: bool
    count: int
    nodes: tuple[str, str]
    first: Stack
    second: Stack
    ranks: tuple[int, ...]
    compile_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FusionSummary(Record):
    """What the scheduler did in one input: graphs, pairs fused, pairs refused."""

    graphs: int
    fused: int
    refused: int


@dataclass(slots=True)
class _Pair:
    detail: str
    trivial: bool
    nodes: tuple[str, str]
    first: Stack
    second: Stack
    anchor: Anchor
    origin: Origin
    count: int = 0
    ranks: set[int] = field(default_factory=set)
    compile_ids: set[str] = field(default_factory=set)


class Tally:
    """Counts refusals by reason and pair of lines."""

    def __init__(self, name: str, first_seq: int) -> None:
        self._name = name
        self._seq = first_seq
        self._heads: dict[bytes, Origin] = {}
        self._nodes: dict[tuple[int | None, int | None, str], dict[bytes, Stack]] = {}
        self._pairs: dict[tuple[str, Stack, Stack], _Pair] = {}
        self._graphs = self._fused = self._refused = 0
        self._start = (0, 0)

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Count the lines of a chunk."""
        counted, at = line, 0
        for mark in _MARK.finditer(chunk):
            position = mark.end()
            if chunk.startswith(b"cannot fuse ", position):
                end = chunk.find(b"\n", position)
                end = len(chunk) if end < 0 else end
                begin = chunk.rfind(b"\n", 0, position) + 1
                if (m := _REFUSED.match(chunk, position, end)) is not None:
                    counted, at = counted + chunk.count(b"\n", at, begin), begin
                    anchor = Anchor(self._name, start + begin, start + end, counted + 1, _quoted(chunk, position, end))
                    self._refuse(m, self._origin(chunk[begin : mark.start()]), anchor)
            elif chunk.startswith(b"fusing ", position):
                self._fused += 1
            elif (m := _ROUND.match(chunk, position)) is not None:
                if m[1] == b"1":
                    self._graphs += 1
                    begin = chunk.rfind(b"\n", 0, position) + 1
                    self._nodes.pop(_writer(self._origin(chunk[begin : mark.start()])), None)
            elif (m := _NODE.match(chunk, position, position + 120)) is not None:
                self._node(m[1], chunk, mark.start(), m.end())

    def records(self) -> Iterator[Record]:
        """One record a reason and pair of lines, and a summary."""
        for number, ((reason, _, _), p) in enumerate(self._pairs.items()):
            yield FusionRefusal(
                p.anchor, reason, p.detail, p.trivial, p.count, p.nodes, p.first, p.second, tuple(sorted(p.ranks)),
                tuple(sorted(p.compile_ids)), origin=p.origin, seq=self._seq + p.anchor.start,
            )  # fmt: skip
            if number == 0:
                yield FusionSummary(
                    p.anchor, self._graphs, self._fused, self._refused, origin=p.origin, seq=self._seq + p.anchor.start
                )

    # -- lines ------------------------------------------------------------------

    def _origin(self, head: bytes) -> Origin:
        """Rank, process and compile id of a head; heads of one millisecond are alike."""
        found = self._heads.get(head)
        if found is None:
            m = _HEAD.match(head)
            rank, pid, cid = (m["rank"], m["pid"], m["cid"]) if m is not None else (None, None, None)
            found = Origin(
                rank=int(rank) if rank else None,
                pid=int(pid[:18]) if pid else None,
                compile_id=cid.decode() if cid else "",
                artifact="fusion",
            )
            if len(self._heads) > 10_000:
                self._heads.clear()
            self._heads[head] = found
        return found

    def _node(self, name: bytes, chunk: bytes, mark: int, position: int) -> None:
        begin = chunk.rfind(b"\n", 0, mark) + 1
        writer = _writer(self._origin(chunk[begin:mark]))
        nodes = self._nodes.setdefault(writer, {})
        if name in nodes or len(nodes) > MAX_NODES:
            return
        end = chunk.find(b"\n", position)
        # The first stack is that of the operation that the node stands for; others belong to what was fused into it.
        stack = chunk.find(_STACK, position, len(chunk) if end < 0 else end)
        nodes[name] = () if stack < 0 else _stack(chunk, stack, chunk.find(b"}", stack))

    def _refuse(self, m: re.Match[bytes], origin: Origin, anchor: Anchor) -> None:
        self._refused += 1
        detail = m[3].decode("utf-8", "replace").strip()
        reason = _NUMBERS.sub("", detail).strip(" ,.:")
        trivial = _TRIVIAL.match(reason) is not None
        nodes = self._nodes.get(_writer(origin), {})
        first, second = ((), ()) if trivial else (_place(nodes, m[1]), _place(nodes, m[2]))
        key = (reason, first, second)
        if key not in self._pairs and len(self._pairs) >= MAX_PAIRS:
            key = (reason, (), ())
        pair = self._pairs.get(key)
        if pair is None:
            names = (m[1].decode("utf-8", "replace"), m[2].decode("utf-8", "replace"))
            pair = self._pairs[key] = _Pair(detail, trivial, names, first, second, anchor, origin)
        pair.count += 1
        if origin.rank is not None:
            pair.ranks.add(origin.rank)
        if origin.compile_id and len(pair.compile_ids) < 100:
            pair.compile_ids.add(origin.compile_id)


def _writer(origin: Origin) -> tuple[int | None, int | None, str]:
    return (origin.rank, origin.pid, origin.compile_id)


def _place(nodes: dict[bytes, Stack], name: bytes) -> Stack:
    """The line of a node; of a fused one (`op3_op4`) that of its first member with a line."""
    if nodes.get(name):
        return nodes[name]
    found = (nodes.get(part) for part in re.split(rb"_(?=op\d|buf\d)", name))
    return next((stack for stack in found if stack), ())


def _stack(chunk: bytes, begin: int, end: int) -> Stack:
    frames = []
    for m in _FRAME.finditer(chunk, begin, len(chunk) if end < 0 else end):
        text = {k: v.decode("utf-8", "replace") for k, v in m.groupdict().items()}
        source = text["text"].replace("\\'", "'").strip()
        frames.append(Frame(text["file"], int(text["line"]), text["function"], source))
    return tuple(frames[-MAX_FRAMES:])


def _quoted(chunk: bytes, begin: int, end: int) -> str:
    return chunk[begin : min(end, begin + 400)].decode("utf-8", "replace").strip()
