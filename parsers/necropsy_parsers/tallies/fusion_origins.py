"""Candidates of Inductor's scheduler whose list names the nodes of the graph that they come from, but no lines.

[0/0] [__fusion]   SchedulerNode(name='op3'), Reduction(['[32]', 'max', 'origins={max_1, mul, sin}'])

Torch 2.5 to 2.8 (`debug_str_short`, torch/_inductor/scheduler.py); since 2.9 the stacks stand in the same line and are
read from there. The lines of such nodes are those of `post_grad_graphs`, if the log holds them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.records import Anchor, Record
from necropsy_parsers.text.lines import lines_before
from necropsy_parsers.text.torch_head import origin_of
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "fusion_origins"
TITLE: Final = "Origins of scheduler nodes"
LITERALS: Final = (b"'origins=",)
MAX_BYTES: Final = 0
READS: Final = (Reads("fusion", "2.5", "nodes of the graph that candidates come from", "2.8"),)
MAX_NODES: Final = 20_000  # kept an input
_NODE: Final = re.compile(
    rb"__fusion\] +SchedulerNode\(name='(?P<name>\w+)'\)[^\n]{0,2000}?"
    rb"'origins=(?:OrderedSet\(\[|\{)(?P<origins>[^\]}\n]+)"
)


class NodeOrigins(Record, frozen=True):
    """A scheduler node and the nodes of the graph that it computes."""

    name: str
    origins: tuple[str, ...]


class Tally:
    """Keeps the origins of each node; later rounds of the same graph tell nothing new."""

    def __init__(self, name: str, first_seq: int) -> None:
        self._name = name
        self._seq = first_seq
        self._nodes: list[NodeOrigins] = []
        self._last: dict[tuple[object, ...], tuple[str, ...]] = {}

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Take the nodes of a chunk."""
        if len(self._nodes) >= MAX_NODES or b"stack_traces = {" in chunk:
            return
        for m in _NODE.finditer(chunk):
            begin = chunk.rfind(b"\n", 0, m.start()) + 1
            origin = origin_of(chunk[begin : m.start()], "fusion", timed=True)
            name = m["name"].decode()
            origins = tuple(part.strip() for part in m["origins"].decode("utf-8", "replace").split(","))
            who = (origin.rank, origin.pid, origin.compile_id, name)
            if self._last.get(who) == origins or len(self._nodes) >= MAX_NODES:
                continue
            self._last[who] = origins
            number = line + lines_before(chunk, begin) + 1
            anchor = Anchor(self._name, start + begin, start + m.end(), number, "")
            self._nodes.append(NodeOrigins(anchor, name, origins, origin=origin, seq=self._seq + anchor.start))

    def records(self) -> Iterator[Record]:
        """One record a node."""
        yield from self._nodes
