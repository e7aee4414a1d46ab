"""From the buffers that a C++ kernel writes to the nodes of the graph that it computes.

No release comments the C++ kernels in generated code. But their arguments tell which buffers they write, the result of
the scheduler (`ir_post_fusion`) which of its nodes write those, and its candidates (`fusion`) what each of these
computes. A buffer that is written twice (in place, by kernels that share it) tells nothing, and neither does a node
that two kernels would have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from necropsy_parsers.inductor.records import FusedNodes, KernelCall, NodeStacks

_INPUT: Final = re.compile(r"(?:primals|tangents)_\d+|arg\d+_\d+")  # inputs of a graph have no line


class Computed(Struct, frozen=True):
    """What a kernel computes: scheduler nodes, and nodes of the graph; not `complete` where some stay unknown."""

    scheduled: tuple[NodeStacks, ...]
    nodes: tuple[str, ...]
    complete: bool


def computed(
    calls: Iterable[KernelCall], scheduled: Iterable[NodeStacks], fused: Iterable[FusedNodes]
) -> dict[int, Computed]:
    """The identity of each call that writes known buffers -> what it computes."""
    groups = _outermost(fused)
    writers: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        for name in group.writes:
            writers.setdefault(name, []).append(number)
    told = {s.name: s for s in scheduled}
    found = {id(c): {n for w in c.writes for n in writers.get(w, ())} for c in calls if c.writes}
    shared = {n for n, count in Counter(n for numbers in found.values() for n in numbers).items() if count > 1}
    result: dict[int, Computed] = {}
    for call in calls:
        if call.writes:
            whole = all(len(writers.get(w, ())) == 1 for w in call.writes) and shared.isdisjoint(found[id(call)])
            own = sorted(found[id(call)] - shared)
            names = [n for number in own for n in groups[number].nodes]
            nodes = tuple(told[n] for n in names if n in told)
            origins = dict.fromkeys(o for n in nodes for o in n.origins if not _INPUT.fullmatch(o))
            if nodes:
                result[id(call)] = Computed(nodes, tuple(origins), whole and len(nodes) == len(names))
    return result


def _outermost(fused: Iterable[FusedNodes]) -> Sequence[FusedNodes]:
    """Nodes that are no part of another one; what is listed twice counts once."""
    largest: dict[str, FusedNodes] = {}
    for group in fused:
        for node in group.nodes:
            if node not in largest or len(group.nodes) > len(largest[node].nodes):
                largest[node] = group
    return list({id(g): g for g in largest.values()}.values())
