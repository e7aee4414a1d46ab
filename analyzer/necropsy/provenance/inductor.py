"""From the kernels of generated code to lines of the program: torch's own provenance, graph nodes, the fusion log.

Ordered: what torch says itself of each kernel; the nodes that a kernel computes, by the graph printed after Inductor's
passes, else AOT autograd's (of C++ kernels by the buffers that they write, `cpp_kernels`); the comment at the call,
whose names are of Dynamo's graph (forward) or AOT autograd's (backward); lines of the scheduler's nodes. What none of
them tells stays without lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.inductor.records import (
    FusedNodes,
    GeneratedCode,
    GraphLines,
    KernelCall,
    KernelNodes,
    KernelPlan,
    KernelStacks,
    NodeLine,
    NodeStacks,
)
from necropsy_parsers.records import Frame

from necropsy.provenance import cpp_kernels

# Nodes that only say how a tensor is looked at: they launch nothing.
_VIEW: Final = re.compile(
    r"(?:view|reshape|permute|transpose|t|expand|squeeze|unsqueeze|slice|select|as_strided|flatten|unflatten|split"
    r"|unbind|chunk|alias|detach|getitem|_unsafe_view|narrow|unfold|movedim|swapaxes|size)$"
)
_LIGHT: Final = re.compile(r"(?:convert_element_type|_to_copy|clone|copy_|contiguous|full|to|type_as)$")
_REDUCTION: Final = re.compile(
    r"(?:sum|mean|amax|amin|max|min|var_mean|var|prod|any|all|argmax|argmin|softmax|_softmax|log_softmax|_log_softmax"
    r"|logsumexp|norm|layer_norm|batch_norm|group_norm|cross_entropy|prepare_softmax_online|cumsum|sort|topk"
    r"|native_\w+norm\w*)$"
)
_PRODUCT: Final = re.compile(
    r"(?:\w*(?:mm|matmul|conv(?:olution\w*|[123]d|_transpose[123]d)|linear|einsum|attention\w*|bmm)|embedding\w*|index\w*|gather|scatter\w*)$"
)
_ARGUMENT: Final = re.compile(r"[a-z_]\w*")
# What kernels of libraries are called other than the operator that they compute (torch/_inductor/kernel/mm.py).
_ALIASES: Final = {"bias_addmm": "addmm", "_mm_plus_mm": "mm", "mm_dtype": "mm", "bmm_dtype": "bmm"}

TORCH, NODES, SOURCES, FUSION = "torch's provenance", "graph nodes", "source nodes", "fusion log"


class Weighed(Struct, frozen=True):
    """A line and how much of a kernel's work it is by the nodes that come from it; only their order means anything."""

    frame: Frame
    weight: float


class Lines(Struct, frozen=True):
    """Lines of a kernel, the heaviest first, and how they were found; not `complete`: it may have others."""

    lines: tuple[Weighed, ...] = ()
    how: str = ""
    complete: bool = True


def operator(target: str) -> str:
    """`mm` of `torch.ops.aten.mm.default`, `linear` of `torch._C._nn.linear`."""
    parts = target.split(".")
    return parts[3] if target.startswith("torch.ops.") and len(parts) > 3 else parts[-1]


def weight(target: str) -> float:
    """What a node weighs: views next to nothing, products most."""
    op = operator(target)
    if _VIEW.match(op):
        return 0.01
    if _PRODUCT.match(op):
        return 10.0
    if _REDUCTION.match(op):
        return 3.0
    return 0.5 if _LIGHT.match(op) else 1.0


class Graphs(Struct):
    """What is known of one graph when its code is read."""

    after: Mapping[str, NodeLine] = field(default_factory=dict)
    aot: Mapping[str, NodeLine] = field(default_factory=dict)
    dynamo: Mapping[str, NodeLine] = field(default_factory=dict)
    stacks: Mapping[str, tuple[Frame, ...]] = field(default_factory=dict)
    computed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scheduled: Sequence[NodeStacks] = ()
    plans: Sequence[KernelPlan] = ()
    fused: Sequence[FusedNodes] = ()


class Resolver:
    """Finds the lines of the calls of one graph's code."""

    def __init__(self, code: GeneratedCode, graphs: Graphs) -> None:
        self._code, self._g = code, graphs
        self._mapped: dict[str, set[str]] = {}
        for call in code.calls:
            for source, nodes in call.mapping:
                self._mapped.setdefault(source, set()).update(nodes)
        self._planned = _planned(code, graphs)
        self._written = cpp_kernels.computed(code.calls, graphs.scheduled, graphs.fused)
        self._planned |= {call: list(w.scheduled) for call, w in self._written.items()}
        self._learnt = self._learn()
        self._alone = {o: s.frames[0] for s in graphs.scheduled if len(s.frames) == 1 for o in s.origins}
        self._order = {n: i for i, n in enumerate([*graphs.dynamo, *graphs.aot, *graphs.after])}

    def lines(self, call: KernelCall) -> Lines:
        """The lines of one call."""
        own = self._own(call) if call.extern else self._computed(call)
        told = self._g.stacks.get(_key(call))
        if not told:
            return own
        known = {_place(w.frame): w.weight for w in own.lines}
        return _sorted({f: known.get(_place(f), 0.0) for f in told}, TORCH)

    # -- generated kernels ------------------------------------------------------

    def _computed(self, call: KernelCall) -> Lines:
        written = self._written.get(id(call))
        nodes = call.nodes or self._g.computed.get(_key(call), ()) or (written.nodes if written is not None else ())
        whole = written is None or written.complete
        found = self._weighed(((n, self._node(n)) for n in nodes), self._target)
        if found:
            known = all(n in self._g.after or n in self._g.aot for n in nodes)
            return _sorted(found, NODES, complete=known and whole)
        if call.nodes or self._planned.get(id(call)):
            return self._scheduled(call, whole=whole)
        frames = [(s, self._source(s)) for s in call.sources]
        named = self._weighed(frames, self._source_target)
        return _sorted(named, SOURCES, complete=all(f is not None for _, f in frames))

    def _scheduled(self, call: KernelCall, *, whole: bool = True) -> Lines:
        """Lines of the scheduler nodes in this kernel, else of all that compute nothing but nodes of it."""
        mine = frozenset(call.nodes)
        nodes = self._planned.get(id(call)) or [s for s in self._g.scheduled if mine.issuperset(s.origins)]
        told = {o for s in nodes for o in s.origins}
        found = dict.fromkeys((f for s in nodes for f in s.frames), 0.0)
        for node in told:
            alone = self._alone.get(node)
            if alone is not None and alone in found:
                found[alone] += weight(_plain(node))
        return _sorted(found, FUSION, complete=whole and told >= mine)

    def _learn(self) -> dict[str, Frame]:
        """Names in comments of kernels that are one line: each of these names is of that line, if of any."""
        found: dict[str, Frame] = {}
        for call in self._code.calls:
            lines = {_place(f): f for s in self._planned.get(id(call), ()) for f in s.frames}
            if len(lines) == 1 and all(s.frames for s in self._planned[id(call)]):
                for name in call.sources:
                    found.setdefault(name, next(iter(lines.values())))
        return found

    # -- libraries' kernels -----------------------------------------------------

    def _own(self, call: KernelCall) -> Lines:
        """The line of the operation itself; the comment names what was fused into its inputs' views, too."""
        told = self._weighed(((n, self._node(n)) for n in self._g.computed.get(_key(call), ())), self._target)
        if told:
            return _sorted(told, NODES)
        op = operator(call.name)
        op = _ALIASES.get(op, op)
        nodes = self._g.after or self._g.aot
        alike = [n for n in nodes.values() if n.frame is not None and operator(n.target) == op]
        same = {_place(n.frame) for n in alike}
        names = list(call.sources) if call.ordered else sorted(call.sources, key=lambda s: self._order.get(s, -1))
        last = self._source(names[-1]) if names else None
        how = SOURCES if nodes or self._g.dynamo else FUSION
        if last is not None and (not same or _place(last) in same):
            return _sorted({last: weight(op)}, how)
        # A pass replaced the operation: that of its kind is meant which takes an input of the call, or what the comment
        # names.
        given = {n for s in names for n in self._mapped.get(s, ())}
        given.update(names if self._g.dynamo or self._code.direction == "backward" else ())
        for taken in (frozenset(call.inputs), given):
            fed = [n.frame for n in alike if not taken.isdisjoint(_ARGUMENT.findall(n.args)) and n.frame]
            if len({_place(f) for f in fed}) == 1:
                return _sorted({fed[0]: weight(op)}, NODES)
        frames = {_place(f): f for s in names if (f := self._source(s)) is not None and _place(f) in same}
        return _sorted(dict.fromkeys(frames.values(), weight(op)), how)

    # -- names ------------------------------------------------------------------

    def _node(self, name: str) -> Frame | None:
        """The line of a node of the graph after Inductor's passes, which keep the names that they do not replace."""
        node = self._g.after.get(name) or self._g.aot.get(name)
        return node.frame if node is not None else None

    def _target(self, name: str) -> str:
        node = self._g.after.get(name) or self._g.aot.get(name)
        return node.target if node is not None else _plain(name)

    def _source(self, name: str) -> Frame | None:
        """The line of a name in a comment, if there is one only."""
        by_nodes = {_place(f): f for n in self._mapped.get(name, ()) if (f := self._node(n) or self._alone.get(n))}
        if len(by_nodes) == 1:
            return next(iter(by_nodes.values()))
        if not by_nodes and name in self._learnt:
            return self._learnt[name]
        traced = self._g.dynamo.get(name)
        written = self._g.aot.get(name) or self._g.after.get(name)
        if traced is not None and traced.frame is not None:
            if self._code.direction != "backward" or written is None or written.frame is None:
                return traced.frame
            return traced.frame if _place(traced.frame) == _place(written.frame) else None
        # Without Dynamo's graph a name of the forward pass could be that of another node here.
        known = written is not None and (self._g.dynamo or self._code.direction == "backward")
        return written.frame if known and written is not None else None

    def _source_target(self, name: str) -> str:
        node = self._g.dynamo.get(name) or self._g.aot.get(name)
        return node.target if node is not None else _plain(name)

    @staticmethod
    def _weighed(named: Iterable[tuple[str, Frame | None]], target: Callable[[str], str]) -> dict[Frame, float]:
        found: dict[Frame, float] = {}
        for name, frame in named:
            if frame is not None:
                found[frame] = found.get(frame, 0.0) + weight(target(name))
        return found


def _planned(code: GeneratedCode, graphs: Graphs) -> dict[int, list[NodeStacks]]:
    """Scheduler nodes of each generated call, if each has a list and all that comments tell agrees with it."""
    calls = [c for c in code.calls if not c.extern]
    if len(calls) != len(graphs.plans):
        return {}
    named = {s.name: s for s in graphs.scheduled}
    found: dict[int, list[NodeStacks]] = {}
    for call, plan in zip(calls, graphs.plans, strict=True):
        nodes = [named[n] for n in plan.nodes if n in named]
        if call.nodes and not {o for s in nodes for o in s.origins} <= frozenset(call.nodes):
            return {}
        if len(nodes) == len(plan.nodes):
            found[id(call)] = nodes
    return found


def _key(call: KernelCall) -> str:
    """Under what torch's provenance tells of a call: since 2.9 with its number."""
    return f"{call.name}:{call.handle}" if call.handle else call.name


def _place(frame: Frame | None) -> tuple[str, int | None]:
    return (frame.file, frame.line) if frame is not None else ("", None)


def _plain(name: str) -> str:
    """A node's name without its number: what it calls, where no graph tells."""
    return re.sub(r"_\d+$", "", name)


def _sorted(found: Mapping[Frame, float], how: str, *, complete: bool = True) -> Lines:
    """Frames of one line become one; the heaviest first."""
    lines: dict[tuple[str, int | None], Weighed] = {}
    for frame, amount in found.items():
        old = lines.get(_place(frame))
        lines[_place(frame)] = Weighed(old.frame if old else frame, amount + (old.weight if old else 0.0))
    return Lines(tuple(sorted(lines.values(), key=lambda w: -w.weight)), how, complete) if lines else Lines()


Told = GeneratedCode | GraphLines | KernelStacks | KernelNodes | KernelPlan | NodeStacks | FusedNodes
Writer = tuple[str, int | None, int | None, str]


def writer_of(record: Told) -> Writer:
    """Whose compilation: names of nodes and kernels hold within it."""
    o = record.origin
    return (record.group, o.rank, o.pid, o.compile_id)


class Book:
    """All that was told, by compilation; what stands next before a graph's code is meant."""

    def __init__(self, records: Iterable[Told]) -> None:
        self._told: dict[Writer, list[Told]] = {}
        self.codes: list[GeneratedCode] = []
        # What was postponed is read with all that it holds: names of files, too, that a structured log numbers.
        for record in sorted((r for r in records if isinstance(r, Told)), key=lambda r: r.seq):
            self._told.setdefault(writer_of(record), []).append(record)
            if isinstance(record, GeneratedCode):
                self.codes.append(record)

    def resolver(self, code: GeneratedCode, *, provenance: bool = True) -> Resolver:
        """The resolver for one graph's code; without torch's own `provenance` if that is to be compared with."""
        told = self._told[writer_of(code)]
        at = next(i for i, r in enumerate(told) if r is code)
        codes = [i for i, r in enumerate(told) if isinstance(r, GeneratedCode)]
        first = max((i for i in codes if i < at), default=-1) + 1
        last = min((i for i in codes if i > at), default=len(told))
        folder = len(codes) == 1  # files of a folder come in any order
        near = told if folder else told[first:at]
        behind = told if folder else told[at:last]
        stacks = [r for r in behind if isinstance(r, KernelStacks)]
        computed = [r for r in behind if isinstance(r, KernelNodes)]
        return Resolver(
            code,
            Graphs(
                _nodes(near, "after"),
                _nodes(told if folder else told[:at], code.direction),
                _nodes(told if folder else told[:at], "dynamo"),
                dict(stacks[0].stacks) if stacks and provenance else {},
                dict(computed[0].nodes) if computed and provenance else {},
                [r for r in near if isinstance(r, NodeStacks)],
                [r for r in near if isinstance(r, KernelPlan)],
                [r for r in near if isinstance(r, FusedNodes)],
            ),
        )


def _nodes(told: Iterable[Told], stage: str) -> dict[str, NodeLine]:
    graphs = [r for r in told if isinstance(r, GraphLines) and r.stage == stage]
    return {n.name: n for n in graphs[-1].nodes} if graphs else {}
