"""Generated code, the graphs that it was made from, and torch's own provenance of its kernels.

`inductor_output_code` (torch/_inductor/graph.py), `dynamo_output_graph`, `aot_forward_graph`, `aot_backward_graph`,
`aot_inference_graph`, `inductor_post_grad_graph` (an artifact in some releases); kernel stacks
since 2.9 at `trace.provenance_tracking_level` 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.inductor.code import read_code
from necropsy_parsers.inductor.graph import read_graph
from necropsy_parsers.inductor.records import GeneratedCode, GraphLines, KernelNodes, KernelStacks
from necropsy_parsers.inductor.stacks import read_mappings, read_stacks
from necropsy_parsers.records import Record
from necropsy_parsers.structured.entry import Entry
from necropsy_parsers.structured.kinds import Plain, Reader

_STAGES: Final = {
    "dynamo_output_graph": "dynamo",
    "aot_forward_graph": "forward",
    "aot_backward_graph": "backward",
    "aot_inference_graph": "inference",
    "inductor_post_grad_graph": "after",
}
_STACKS: Final = "inductor_provenance_tracking_kernel_stack_traces"
_MAPPINGS: Final = "inductor_provenance_tracking_node_mappings"
KINDS: Final = (
    "inductor_output_code",
    *_STAGES,
    "artifact:inductor_post_grad_graph",
    f"artifact:{_STACKS}",
    f"artifact:{_MAPPINGS}",
)
POSTPONED: Final = True  # read line by line, it takes ten times as long as all the rest of a log


def make() -> Reader:
    """A reader of what Inductor made."""
    return Plain(_read)


def _read(entry: Entry) -> Iterator[Record]:
    name, group = entry.name or entry.kind, entry.anchor.input
    if name == _STACKS:
        stacks = read_stacks(entry.payload)
        if stacks:
            yield KernelStacks(entry.anchor, group, stacks, **entry.common)
        return
    if name == _MAPPINGS:
        mapped = read_mappings(entry.payload)
        if mapped:
            yield KernelNodes(entry.anchor, group, mapped, **entry.common)
        return
    text = entry.payload.encode()
    if name == "inductor_output_code":
        code = read_code(text)
        if code.calls:
            yield GeneratedCode(entry.anchor, group, code.graph, code.direction, tuple(code.calls), **entry.common)
        return
    nodes = tuple(read_graph(text).nodes)
    if nodes:
        yield GraphLines(entry.anchor, group, _STAGES[name], nodes, **entry.common)
