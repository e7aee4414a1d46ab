"""What Inductor's scheduler put into each kernel, in the order in which it wrote their code.

[0/0] [__schedule] Schedule:
[0/0] [__schedule]  [SchedulerNode(name='op0'), SchedulerNode(name='op3'), <class '...DisableReduction'>]

`TORCH_LOGS=schedule`, torch 2.5 to 2.13 (torch/_inductor/codegen/simd.py; nodes are named by buffers before). With the
lines of scheduler nodes (`fusion_stacks`) this tells the lines of kernels where a log holds no graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.inductor.records import KernelPlan
from necropsy_parsers.records import Anchor, Record
from necropsy_parsers.text.lines import lines_before
from necropsy_parsers.text.torch_head import origin_of
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "schedule"
TITLE: Final = "Scheduler nodes of kernels"
LITERAL: Final = b"__schedule"
POSTPONED: Final = True
READS: Final = (Reads("schedule", "2.5", "the nodes of each kernel, in the order of their code"),)
MAX_KERNELS: Final = 20_000  # kept an input
_PLAN: Final = re.compile(rb"__schedule\]  ?\[(?P<nodes>[^\n]*SchedulerNode\(name='op[^\n]*)\]")
_NODE: Final = re.compile(rb"SchedulerNode\(name='(\w+)'\)")


class Tally:
    """Keeps the list of each kernel."""

    def __init__(self, name: str, first_seq: int) -> None:
        self._name = name
        self._seq = first_seq
        self._plans: list[KernelPlan] = []

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Take the lists of a chunk."""
        for m in _PLAN.finditer(chunk):
            if len(self._plans) >= MAX_KERNELS:
                return
            begin = chunk.rfind(b"\n", 0, m.start()) + 1
            number = line + lines_before(chunk, begin) + 1
            anchor = Anchor(self._name, start + begin, start + m.end(), number, "")
            nodes = tuple(n.decode() for n in _NODE.findall(m["nodes"]))
            origin = origin_of(chunk[begin : m.start()], "schedule")
            self._plans.append(KernelPlan(anchor, self._name, nodes, origin=origin, seq=self._seq + anchor.start))

    def records(self) -> Iterator[Record]:
        """One record a kernel."""
        yield from self._plans
