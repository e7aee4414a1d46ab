"""Candidates of Inductor's scheduler with the nodes of the graph that they compute and the lines of those.

[0/0] [__fusion]   SchedulerNode(name='op3'), Pointwise(['[512]', 'origins=OrderedSet([sin, mul])', 'stack_traces = {',
'  File "/home/trainer/net.py", line 35, in forward', '    x = torch.sin(y) * 2', '', '}'])

`TORCH_LOGS=fusion`, torch 2.7 to 2.13 (torch/_inductor/ir.py, `common_repr`), stacks since 2.9. A stack ends in the
line; which of several nodes has which of several stacks is not told. Where a log holds generated code, but no graphs,
these are the lines of its kernels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.inductor.records import NodeStacks
from necropsy_parsers.numbers import natural
from necropsy_parsers.records import UNKNOWN, Anchor, Frame, Record
from necropsy_parsers.text.torch_head import origin_of
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "fusion_stacks"
TITLE: Final = "Lines of scheduler nodes"
LITERAL: Final = b"'origins="
POSTPONED: Final = True
READS: Final = (Reads("fusion", "2.7", "lines of the nodes that candidates compute, for kernels"),)
MAX_NODES: Final = 20_000  # kept an input
_NODE: Final = re.compile(rb"__fusion\] +SchedulerNode\(name='(?P<name>\w+)'\)")
_ORIGINS: Final = re.compile(rb"'origins=(?:OrderedSet\(\[|\{)(?P<origins>[^\]}\n]+)")
_STACKS: Final = b"stack_traces = {"
_FRAME: Final = re.compile(
    rb"File \\*\"(?P<file>[^\"\\\n]+)\\*\", line (?P<line>\d{1,9}), in (?P<function>[\w<>]+)"
    rb"\\*['\"], \\*['\"] *(?P<text>[^\n]{0,200}?)\\*['\"], "
)


class Tally:
    """Keeps each node once; the rounds of fusion list it again and again."""

    def __init__(self, name: str, first_seq: int) -> None:
        self._name = name
        self._seq = first_seq
        self._nodes: list[NodeStacks] = []
        self._last: dict[tuple[object, ...], bytes] = {}
        self._head, self._origin = b"", UNKNOWN

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Take the nodes of a chunk."""
        counted = (0, line)
        for m in _NODE.finditer(chunk):
            if len(self._nodes) >= MAX_NODES:
                return
            begin = chunk.rfind(b"\n", 0, m.start()) + 1
            end = chunk.find(b"\n", m.end())
            end = len(chunk) if end < 0 else end
            head, said = chunk[begin : m.start()], chunk[m.end() : end]
            if head != self._head:
                self._head, self._origin = head, origin_of(head, "fusion")
            origin = self._origin
            who = (origin.rank, origin.pid, origin.compile_id, m["name"])
            if self._last.get(who) == said:
                continue
            self._last[who] = said
            told = _ORIGINS.search(said)
            if told is None:
                continue
            counted = (begin, counted[1] + chunk.count(b"\n", counted[0], begin))
            anchor = Anchor(self._name, start + begin, start + m.end(), counted[1] + 1, "")
            origins = tuple(p.strip() for p in told["origins"].decode("utf-8", "replace").split(","))
            frames = _innermost(said[told.end() :])
            self._nodes.append(
                NodeStacks(
                    anchor, self._name, m["name"].decode(), origins, frames, origin=origin, seq=self._seq + anchor.start
                )
            )

    def records(self) -> Iterator[Record]:
        """One record a node."""
        yield from self._nodes


def _innermost(text: bytes) -> tuple[Frame, ...]:
    """The last frame of each stack."""
    found: dict[Frame, None] = {}
    for stack in text.split(_STACKS)[1:]:
        frames = list(_FRAME.finditer(stack))
        if frames:
            part = {k: v.decode("utf-8", "replace") for k, v in frames[-1].groupdict().items()}
            found[
                Frame(part["file"], natural(part["line"]), part["function"], part["text"].replace("\\'", "'").strip())
            ] = None
    return tuple(found)
