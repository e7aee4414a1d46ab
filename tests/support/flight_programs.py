"""Programs for simulated jobs: a Megatron-like step with tensor, pipeline, data and expert parallelism, and FSDP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from tests.support.flight import Op

Programs = tuple[list[list[Op]], dict[str, tuple[str, tuple[int, ...]]]]


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of the groups (`experts`: ranks over which experts are spread; 1 for none) and of a step.

    Ranks are numbered with tensor parallelism innermost, then data, then pipeline. Where
    experts are spread, the host waits for the GPU in each forward layer (for token counts).
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    experts: int = 1
    steps: int = 3
    micro_batches: int = 4
    layers: int = 2

    @property
    def ranks(self) -> int:
        """How many."""
        return self.tensor * self.pipeline * self.data

    def rank(self, t: int, d: int, p: int) -> int:
        """The rank at these coordinates."""
        return t + self.tensor * (d + self.data * p)


@dataclass(slots=True)
class _Groups:
    """All groups, and each rank's group of a kind."""

    named: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    of: dict[tuple[str, int], str] = field(default_factory=dict)
    numbers: Callable[[], int] = field(default_factory=lambda: count().__next__)

    def add(self, kind: str, members: tuple[int, ...]) -> None:
        name = str(self.numbers())
        self.named[name] = (kind, members)
        for r in members:
            self.of[kind, r] = name


def _groups(layout: Layout) -> _Groups:
    groups = _Groups()
    groups.add("default_pg", tuple(range(layout.ranks)))
    tensor, data, pipeline = range(layout.tensor), range(layout.data), range(layout.pipeline)
    for p in pipeline:
        for d in data:
            groups.add("TENSOR", tuple(layout.rank(t, d, p) for t in tensor))
        for t in tensor:
            groups.add("DATA", tuple(layout.rank(t, d, p) for d in data))
        stage = [layout.rank(t, d, p) for d in data for t in tensor]
        for i in range(0, len(stage), layout.experts):
            groups.add("EXPERT", tuple(stage[i : i + layout.experts]))
    for d in data:
        for t in tensor:
            groups.add("PIPELINE", tuple(layout.rank(t, d, p) for p in pipeline))
    return groups


class _Rank:
    """One rank's program as it is written."""

    def __init__(self, rank: int, layout: Layout, groups: _Groups) -> None:
        self.rank, self.layout, self.groups = rank, layout, groups
        self.stage = rank // (layout.tensor * layout.data)
        self.ops: list[Op] = []

    def collective(self, op: str, kind: str, *, blocks: bool = True, size: int = 1024) -> None:
        name = self.groups.of[kind, self.rank]
        if len(self.groups.named[name][1]) > 1:
            self.ops.append(Op(op, name, size=size, blocks=blocks))

    def send(self, op: str, stage: int) -> None:
        peer = self.rank + (stage - self.stage) * self.layout.tensor * self.layout.data
        self.ops.append(Op(op, self.groups.of["PIPELINE", self.rank], peer=peer, blocks=op == "recv"))

    def sync(self) -> None:
        self.ops.append(Op("sync"))

    def layer(self, forward: bool) -> None:
        self.collective("_all_gather_base", "TENSOR")
        if self.layout.experts > 1:
            self.collective("all_reduce", "TENSOR", size=16)
            if forward:
                self.sync()
            self.collective("all_to_all", "EXPERT")
            self.collective("all_to_all", "EXPERT")
            if forward:
                self.sync()
            self.collective("all_to_all", "EXPERT")
        self.collective("_reduce_scatter_base", "TENSOR")

    def forward(self) -> None:
        if self.stage == 0:
            self.collective("broadcast", "TENSOR")
        else:
            self.send("recv", self.stage - 1)
        for _ in range(self.layout.layers):
            self.layer(True)
        if self.stage < self.layout.pipeline - 1:
            self.send("send", self.stage + 1)

    def backward(self) -> None:
        if self.stage < self.layout.pipeline - 1:
            self.send("recv", self.stage + 1)
        for _ in range(self.layout.layers):
            self.layer(False)
        if self.stage > 0:
            self.send("send", self.stage - 1)

    def step(self) -> None:
        early = min(self.layout.pipeline - self.stage - 1, self.layout.micro_batches)
        for _ in range(early):
            self.forward()
        for _ in range(self.layout.micro_batches - early):
            self.forward()
            self.backward()
        for _ in range(early):
            self.backward()
        for _ in range(3):
            self.collective("_reduce_scatter_base", "DATA", blocks=False, size=1 << 20)
        self.collective("all_reduce", "default_pg", size=1)
        self.sync()
        for _ in range(3):
            self.collective("_all_gather_base", "DATA", size=1 << 20)
        if self.rank in (0, self.layout.ranks - 1):
            self.sync()  # logs the loss


def megatron(layout: Layout) -> Programs:
    """Programs of all ranks, and the groups: name -> (description, members)."""
    groups = _groups(layout)
    programs = []
    for r in range(layout.ranks):
        rank = _Rank(r, layout, groups)
        for _ in range(layout.steps):
            rank.step()
        programs.append(rank.ops)
    return programs, groups.named


def fsdp(ranks: int, steps: int = 4, layers: int = 6) -> Programs:
    """One group: gathers of parameters, scatters of gradients, a loss that rank 0 logs."""
    groups = {"0": ("default_pg", tuple(range(ranks)))}
    programs = []
    for r in range(ranks):
        ops: list[Op] = []
        for s in range(steps):
            ops += [Op("_all_gather_base", "0", size=1000 + layer) for layer in range(layers)]
            for layer in reversed(range(layers)):
                ops.append(Op("_all_gather_base", "0", size=1000 + layer))
                ops.append(Op("_reduce_scatter_base", "0", size=2000 + layer, blocks=False))
            ops.append(Op("all_reduce", "0", size=1))
            if r == 0 or s % 2:
                ops.append(Op("sync"))
        programs.append(ops)
    return programs, groups
