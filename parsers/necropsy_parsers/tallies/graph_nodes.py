"""Graphs after Inductor's passes: from which line of the program each of their nodes comes.

[0/0] [__post_grad_graphs]         # File: /home/trainer/net.py:15 in forward, code: d = self.norm(x)
[0/0] [__post_grad_graphs]         var_mean = torch.ops.aten.var_mean.correction(arg0_1, [2], correction = 0)
[0/0] [__post_grad_graphs]         getitem: "f32[8, 32, 1][32, 1, 1]cpu" = var_mean[0]

`TORCH_LOGS=post_grad_graphs`, torch 2.2 to 2.13 (torch/fx/graph.py); the line holds for all nodes up to the next. What
the scheduler says of its nodes names these as `origins`. A large model has thousands of nodes, hence a tally.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.numbers import natural
from necropsy_parsers.records import UNKNOWN, Anchor, Frame, Record
from necropsy_parsers.tallies import Found, places
from necropsy_parsers.text.lines import lines_before
from necropsy_parsers.text.torch_head import origin_of
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "graph_nodes"
TITLE: Final = "Graphs after Inductor's passes"
_GRAPH: Final = b"__post_grad_graphs"
_ORIGINS: Final = b"'origins="
LITERALS: Final = (_GRAPH,)
PLACED: Final = (_GRAPH,)
ALSO: Final = (_ORIGINS,)
MAX_BYTES: Final = 0
READS: Final = (Reads("post_grad_graphs", "2.2", "the line of the program of each node, for refused fusions"),)
MAX_NODES: Final = 20_000  # kept an input
PATIENCE: Final = 16 << 20  # bytes from the first graph on after which no scheduler will ask for its nodes any more
_ANSI: Final = rb"(?:\x1b\[[\d;]*m)*"
_LINE: Final = re.compile(
    rb"__post_grad_graphs(?:\]|: \[\w+\]) " + _ANSI + rb" *" + _ANSI + rb"(?:(?P<begin>TRACED GRAPH)"
    rb"|# File: (?P<file>[^\n]+?):(?P<line>\d{1,9})(?: in (?P<function>[^\n,]+))?, code: (?P<code>[^\n\x1b]*)"
    rb"|(?P<none># No stacktrace)|(?P<name>[a-z_]\w*)" + _ANSI + rb"(?:: [^\n=]{1,200})?" + _ANSI + rb" = )"
)


class GraphNode(Record, frozen=True):
    """A node of a graph and the line of the program that it comes from; `order` counts the nodes of its graph.

    `frame` is None where torch does not know the line, though it did of a node of that name in an earlier graph.
    """

    name: str
    frame: Frame | None
    order: int


class Tally:
    """Keeps the line of each node; of a graph that is printed again nothing new.

    Only the scheduler of 2.5 to 2.8 names nodes, right behind each graph: chunks wait until it does so, and where it
    does not they are dropped.
    """

    found: Found = staticmethod(places)

    def __init__(self, name: str, first_seq: int) -> None:
        self._name = name
        self._seq = first_seq
        self._nodes: list[GraphNode] = []
        self._last: dict[tuple[object, ...], Frame | None] = {}
        self._frames: dict[tuple[object, ...], Frame | None] = {}
        self._order: dict[tuple[object, ...], int] = {}
        self._waiting: list[tuple[bytes, int, int]] | None = []  # None once a scheduler has asked
        self._first = -1  # where the first graph stands

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Take the nodes of a chunk."""
        if self._waiting is None:
            self._read(chunk, start, line, self.found)
            return
        if self._first < 0:
            self._first = start
        if start - self._first > PATIENCE:
            self._waiting.clear()
            return
        self._waiting.append((chunk, start, line))
        if _ORIGINS in chunk:
            waiting, self._waiting = self._waiting, None
            for held in waiting:
                self._read(*held, places)

    def _read(self, chunk: bytes, start: int, line: int, found: Found) -> None:
        if len(self._nodes) >= MAX_NODES:
            return
        head, origin = b"", UNKNOWN
        who: tuple[object, ...] = ()
        for m in filter(None, (_LINE.match(chunk, position) for position in found(chunk, _GRAPH))):
            begin = chunk.rfind(b"\n", 0, m.start()) + 1
            if chunk[begin : m.start()] != head:  # the lines of a graph have one
                head = chunk[begin : m.start()]
                origin = origin_of(head, "post_grad_graphs")
                who = (origin.rank, origin.pid, origin.compile_id)
            if m["begin"]:
                self._frames[who], self._order[who] = None, 0
            elif m["file"]:
                part = {k: (v or b"").decode("utf-8", "replace") for k, v in m.groupdict().items()}
                self._frames[who] = Frame(part["file"], natural(part["line"]), part["function"], part["code"].strip())
            elif m["none"]:
                self._frames[who] = None
            else:
                name, frame = m["name"].decode(), self._frames.get(who)
                self._order[who] = order = self._order.get(who, 0) + 1
                if self._last.get((*who, name)) == frame or len(self._nodes) >= MAX_NODES:
                    continue
                self._last[(*who, name)] = frame
                number = line + lines_before(chunk, begin) + 1
                end = chunk.find(b"\n", m.end())
                anchor = Anchor(self._name, start + begin, start + (len(chunk) if end < 0 else end), number, "")
                self._nodes.append(GraphNode(anchor, name, frame, order, origin=origin, seq=self._seq + anchor.start))

    def records(self) -> Iterator[Record]:
        """One record a node."""
        yield from self._nodes
