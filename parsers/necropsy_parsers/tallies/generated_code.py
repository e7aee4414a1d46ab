"""Generated code in a log: which kernels it calls, and the nodes of the graph that each computes.

[0/0] [__output_code] # Topologically Sorted Source Nodes: [x, relu], Original ATen: [aten.add, aten.relu]
[0/0] [__output_code] triton_poi_fused_add_relu_0 = async_compile.triton('triton_poi_fused_add_relu_0', '''
[0/0] [__output_code]         triton_poi_fused_add_relu_0.run(arg0_1, buf0, 4096, stream=stream0)

`TORCH_LOGS=output_code`, torch 2.1 to 2.13; see `necropsy_parsers.inductor.code`. Most lines are the kernels' own code,
which is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy_parsers.inductor.code import LINE, CodeReader
from necropsy_parsers.inductor.records import GeneratedCode
from necropsy_parsers.records import Anchor, Origin, Record
from necropsy_parsers.text.lines import lines_before
from necropsy_parsers.text.torch_head import origin_of
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "generated_code"
TITLE: Final = "Inductor's generated code"
LITERAL: Final = b"__output_code"
POSTPONED: Final = True
READS: Final = (Reads("output_code", "2.1", "kernels, the order of their calls, the nodes that each computes"),)
MAX_GRAPHS: Final = 2_000  # kept an input
_LINE: Final = re.compile(rb"__output_code(?:\]|: \[\w+\]) " + LINE)

Who = tuple[int | None, int | None, str]


class _Graph(Struct):
    anchor: Anchor
    origin: Origin
    reader: CodeReader


class Tally:
    """Reads the code of each graph; processes may be woven together."""

    def __init__(self, name: str, first_seq: int) -> None:
        self._name = name
        self._seq = first_seq
        self._open: dict[Who, _Graph] = {}
        self._graphs: list[_Graph] = []
        self._last: tuple[bytes, Who, Origin] | None = None

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Take the code of a chunk."""
        for m in _LINE.finditer(chunk):
            begin = chunk.rfind(b"\n", 0, m.start()) + 1
            who, origin = self._who(chunk[begin : m.start()])
            graph = self._open.get(who)
            if graph is None or m["begin"] is not None or (m["graph"] is not None and graph.reader.calls):
                if len(self._graphs) >= MAX_GRAPHS:
                    return
                number = line + lines_before(chunk, begin) + 1
                end = chunk.find(b"\n", m.end())
                end = len(chunk) if end < 0 else end
                said = chunk[m.start() : end].split(b" ", 1)[1].decode("utf-8", "replace")[:200]
                anchor = Anchor(self._name, start + begin, start + end, number, said)
                graph = self._open[who] = _Graph(anchor, origin, CodeReader())
                self._graphs.append(graph)
            graph.reader.take(m)

    def _who(self, head: bytes) -> tuple[Who, Origin]:
        """The writer; most lines have the head of the one before."""
        if self._last is None or self._last[0] != head:
            origin = origin_of(head, "output_code")
            self._last = (head, (origin.rank, origin.pid, origin.compile_id), origin)
        return self._last[1], self._last[2]

    def records(self) -> Iterator[Record]:
        """One record a graph."""
        for g in self._graphs:
            r, seq = g.reader, self._seq + g.anchor.start
            if r.calls:
                yield GeneratedCode(
                    g.anchor, self._name, r.graph, r.direction, tuple(r.calls), origin=g.origin, seq=seq
                )
