"""What Inductor's scheduler fused in the end, and the buffers that each node writes.

[0/0] [__ir_post_fusion] AFTER FUSION
[0/0] [__ir_post_fusion] op10_op15: FusedSchedulerNode(SchedulerNode,SchedulerNode)
[0/0] [__ir_post_fusion] op10_op15.outputs = [
[0/0] [__ir_post_fusion]     buf10: ComputedBuffer
[0/0] [__ir_post_fusion]     buf15: ComputedBuffer

`TORCH_LOGS=ir_post_fusion`, torch 2.7 to 2.13 (torch/_inductor/scheduler.py, `debug_str`). C++ kernels bear no comments
in generated code; the buffers that they write name the nodes that they compute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.inductor.records import FusedNodes
from necropsy_parsers.records import UNKNOWN, Anchor, Origin, Record
from necropsy_parsers.text.torch_head import origin_of
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "fused_nodes"
TITLE: Final = "Scheduler nodes after fusion"
LITERAL: Final = b"__ir_post_fusion"
POSTPONED: Final = True
READS: Final = (Reads("ir_post_fusion", "2.7", "the nodes of each C++ kernel, by the buffers that it writes"),)
MAX_NODES: Final = 50_000  # kept an input
_LINE: Final = re.compile(
    rb"__ir_post_fusion\] [ ]*+(?:(?P<nodes>op\d++(?:_op\d++)*+): \w+\("
    rb"|(?P<buffer>\w++): [A-Z]\w*+\r?$"
    rb"|\w++\.mutations = \[(?P<mutated>[^\]\n]*+)\])",
    re.MULTILINE,
)
_NAME: Final = re.compile(rb"'(\w+)'")


class _Node:
    """A node while its lines come."""

    def __init__(self, anchor: Anchor, origin: Origin, nodes: bytes) -> None:
        self.anchor, self.origin = anchor, origin
        self.nodes = tuple(nodes.decode().split("_"))
        self.writes: dict[str, None] = {}


class Tally:
    """Keeps each node with the names that its results have; processes may be woven together."""

    def __init__(self, name: str, first_seq: int) -> None:
        self._name, self._seq = name, first_seq
        self._nodes: list[_Node] = []
        self._open: dict[tuple[int | None, int | None], _Node] = {}
        self._head, self._origin = b"", UNKNOWN

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Take the nodes of a chunk."""
        counted = (0, line)
        for m in _LINE.finditer(chunk):
            begin = chunk.rfind(b"\n", 0, m.start()) + 1
            head = chunk[begin : m.start()]
            if head != self._head:
                self._head, self._origin = head, origin_of(head, "ir_post_fusion")
            writer = (self._origin.rank, self._origin.pid)
            if m["nodes"] is not None:
                if len(self._nodes) >= MAX_NODES:
                    return
                counted = (begin, counted[1] + chunk.count(b"\n", counted[0], begin))
                anchor = Anchor(self._name, start + begin, start + m.end(), counted[1] + 1, "")
                node = self._open[writer] = _Node(anchor, self._origin, m["nodes"])
                self._nodes.append(node)
            elif (last := self._open.get(writer)) is not None:
                names = [m["buffer"]] if m["buffer"] is not None else _NAME.findall(m["mutated"])
                last.writes.update(dict.fromkeys(n.decode() for n in names))

    def records(self) -> Iterator[Record]:
        """One record a node, those within a fused one too."""
        for n in self._nodes:
            yield FusedNodes(
                n.anchor, self._name, n.nodes, tuple(n.writes), origin=n.origin, seq=self._seq + n.anchor.start
            )
