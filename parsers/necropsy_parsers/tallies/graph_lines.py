"""Printed graphs in a log: the line of the program of each node, before and after the compiler's passes.

[0/0] [__graph_code]         # File: /home/trainer/net.py:15 in forward, code: d = self.norm(x)
[0/0] [__graph_code]         d = torch.nn.functional.layer_norm(x, (64,), weight, bias, 1e-05)
[0/0] [__aot_graphs]  ===== Backward graph 0 =====
[0/0] [__post_grad_graphs]         var_mean = torch.ops.aten.var_mean.correction(arg0_1, [2], correction = 0)

`TORCH_LOGS=graph_code,aot_graphs,post_grad_graphs`; see `necropsy_parsers.inductor.graph`. What generated code says of
its kernels names these nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy_parsers.inductor.graph import LINE, GraphReader, stage_of
from necropsy_parsers.inductor.records import GraphLines
from necropsy_parsers.records import Anchor, Origin, Record
from necropsy_parsers.text.lines import lines_before
from necropsy_parsers.text.torch_head import origin_of
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "graph_lines"
TITLE: Final = "Graphs with the program's lines"
LITERAL: Final = b"# File: "
ALSO: Final = (b"__aot_graphs", b"__graph_code", b"__post_grad_graphs")
POSTPONED: Final = True
READS: Final = (
    Reads("graph_code", "2.1", "the line of the program of each node, for kernels"),
    Reads("aot_graphs", "2.1", "the line of the program of each node, for kernels"),
)
MAX_GRAPHS: Final = 2_000  # kept an input
MAX_NODES: Final = 100_000  # of all graphs of an input
_LINE: Final = re.compile(
    rb"__(?P<artifact>graph_code|aot_graphs|aot_joint_graph|post_grad_graphs)(?:\]|: \[\w+\]) " + LINE
)

Who = tuple[int | None, int | None, str, str]


class _Graph(Struct):
    anchor: Anchor
    origin: Origin
    artifact: str
    reader: GraphReader


class Tally:
    """Reads the nodes of each graph; processes may be woven together."""

    def __init__(self, name: str, first_seq: int) -> None:
        self._name = name
        self._seq = first_seq
        self._open: dict[Who, _Graph] = {}
        self._graphs: list[_Graph] = []
        self._nodes = 0
        self._last: tuple[bytes, bytes, Who, Origin] | None = None

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Take the graphs of a chunk."""
        for m in _LINE.finditer(chunk):
            begin = chunk.rfind(b"\n", 0, m.start()) + 1
            who, origin = self._who(chunk[begin : m.start()], m["artifact"])
            graph = self._open.get(who)
            if graph is None or m["traced"] is not None or (m["title"] is not None and graph.reader.nodes):
                if len(self._graphs) >= MAX_GRAPHS or self._nodes >= MAX_NODES:
                    return
                number = line + lines_before(chunk, begin) + 1
                anchor = Anchor(self._name, start + begin, start + m.end(), number, "")
                graph = self._open[who] = _Graph(anchor, origin, who[3], GraphReader())
                self._graphs.append(graph)
            graph.reader.take(m)
            self._nodes += m["name"] is not None

    def _who(self, head: bytes, artifact: bytes) -> tuple[Who, Origin]:
        """The writer; most lines have the head of the one before."""
        if self._last is None or self._last[0] != head or self._last[1] != artifact:
            origin = origin_of(head, artifact.decode())
            self._last = (head, artifact, (origin.rank, origin.pid, origin.compile_id, artifact.decode()), origin)
        return self._last[2], self._last[3]

    def records(self) -> Iterator[Record]:
        """One record a graph."""
        for g in self._graphs:
            stage = stage_of(g.artifact, g.reader.title)
            if stage and g.reader.nodes:
                nodes, seq = tuple(g.reader.nodes), self._seq + g.anchor.start
                yield GraphLines(g.anchor, self._name, stage, nodes, origin=g.origin, seq=seq)
