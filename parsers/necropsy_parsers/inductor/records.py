"""Records of generated code and of the graphs that it was made from; `necropsy.evidence` joins them."""

from __future__ import annotations

from msgspec import Struct

from necropsy_parsers.records import Frame, Postponed, Record


class KernelCall(Struct, frozen=True):
    """A kernel that generated code calls, in the order of the calls.

    `name` is that of a generated kernel, or `extern_kernels.mm`, `torch.ops.aten.convolution_backward.default` of a
    library's. `sources` are nodes as the comment at the call names them (`Source Nodes`; of the forward pass those of
    Dynamo's graph, of the backward pass AOT autograd's), `ordered` tells that they stand in the graph's order. `nodes`
    are those of the graph after Inductor's passes, known where the kernel is defined for this call. `mapping` tells
    which source became which of those. `handle` is the number that torch's provenance tracking gave the call; `inputs`
    are the names among a library kernel's arguments, buffers left out; `writes` are the buffers that a C++ kernel
    writes, which has no comment to name its nodes.
    """

    name: str
    extern: bool
    sources: tuple[str, ...] = ()
    aten: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    mapping: tuple[tuple[str, tuple[str, ...]], ...] = ()
    ordered: bool = False
    handle: str = ""
    inputs: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


class GeneratedCode(Record, frozen=True):
    """The code of one graph: `graph` as AOT autograd numbers it (`0_forward`, "" before torch 2.4), `direction` of it.

    `group` is the input or folder that its graphs stand in, too.
    """

    group: str
    graph: str
    direction: str
    calls: tuple[KernelCall, ...]


class NodeLine(Struct, frozen=True):
    """A node of a graph, what it calls (`torch.ops.aten.mm.default`) with what, its line of the program."""

    name: str
    target: str
    frame: Frame | None
    args: str = ""


class GraphLines(Record, frozen=True):
    """The nodes of one graph.

    `stage` is dynamo, joint, forward, backward, inference, before or after (Inductor's passes).
    """

    group: str
    stage: str
    nodes: tuple[NodeLine, ...]


class KernelStacks(Record, frozen=True):
    """Torch's own provenance of one graph's kernels: name with the call's number -> innermost frames, one a line."""

    group: str
    stacks: tuple[tuple[str, tuple[Frame, ...]], ...]


class NodeStacks(Record, frozen=True):
    """A scheduler node before fusion: the nodes of the graph that it computes (`origins`) and all of their lines."""

    group: str
    name: str
    origins: tuple[str, ...]
    frames: tuple[Frame, ...]


class KernelNodes(Record, frozen=True):
    """Torch's own list of the nodes that each kernel of a graph computes: name with the call's number -> nodes."""

    group: str
    nodes: tuple[tuple[str, tuple[str, ...]], ...]


class KernelPlan(Record, frozen=True):
    """The scheduler nodes of one generated kernel; those of a graph stand in the order of its code."""

    group: str
    nodes: tuple[str, ...]


class FusedNodes(Record, frozen=True):
    """Scheduler nodes that Inductor fused, or one of them alone, with the names under which their results are written.

    A fused node is listed with all that it consists of; each of these is listed again by itself.
    """

    group: str
    nodes: tuple[str, ...]
    writes: tuple[str, ...]


class KernelText(Postponed, frozen=True):
    """Text that holds generated code, graphs or the scheduler's lists: of interest where something names a kernel.

    `clocked` tells whether its records bear the clock of their lines.
    """

    clocked: bool = True
