"""Kernels that torch.compile made or calls, with the nodes and lines of the program that each computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from msgspec import Struct

from necropsy_parsers.inductor.records import (
    FusedNodes,
    GeneratedCode,
    GraphLines,
    KernelNodes,
    KernelPlan,
    KernelStacks,
    KernelText,
    NodeStacks,
)
from necropsy_parsers.records import Anchor, Frame, Origin

from necropsy.evidence._late import LateTable
from necropsy.provenance.inductor import Book, Weighed


class InductorKernel(Struct, frozen=True):
    """One call of a kernel by generated code."""

    kernel: str
    graph: str
    compile_id: str
    direction: str
    call: int
    extern: bool
    nodes: tuple[str, ...]
    sources: tuple[str, ...]
    lines: tuple[Weighed, ...]
    how: str
    complete: bool
    anchor: Anchor
    origin: Origin

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Its lines without weights, the heaviest first."""
        return tuple(w.frame for w in self.lines)


class InductorKernels(LateTable[InductorKernel]):
    """One row a call; a kernel of one name may compute other nodes at another call."""

    name = "inductor_kernels"
    row = InductorKernel
    accepts = (GeneratedCode, GraphLines, KernelStacks, KernelNodes, KernelPlan, NodeStacks, FusedNodes, KernelText)
    rows_max = 50_000
    formats = ("log", "inductor_debug", "torch_trace")
    supply = (
        "the log of a run with TORCH_LOGS=output_code,graph_code,aot_graphs,post_grad_graphs (for C++ kernels with "
        "fusion,ir_post_fusion, too), or TORCH_TRACE=DIR"
    )
    columns: ClassVar[dict[str, str]] = {
        "kernel": "name of a generated kernel; extern_kernels.mm or torch.ops.aten.mm.default of a library's",
        "graph": "as AOT autograd numbers it (0_forward), empty before torch 2.4",
        "compile_id": "compilation (0/1), empty where untold",
        "direction": "forward, backward or inference",
        "call": "place among the calls of the graph's code, from 0",
        "extern": "whether it is a library's",
        "nodes": "nodes of the graph after Inductor's passes, where the code tells",
        "sources": "nodes as the comment at the call names them",
        "lines": "lines of the program with weights, the heaviest first, empty where untold",
        "how": "torch's provenance, graph nodes, source nodes or fusion log",
        "complete": "whether all of its lines are known",
        "anchor": "where the graph's code stands",
        "origin": "who wrote it",
    }

    def read(self, told: list[Any]) -> Iterator[InductorKernel]:
        """Find the lines of every call."""
        book = Book(told)
        for code in book.codes:
            resolver = book.resolver(code)
            for number, call in enumerate(code.calls):
                found = resolver.lines(call)
                yield InductorKernel(
                    call.name,
                    code.graph,
                    code.origin.compile_id,
                    code.direction,
                    number,
                    call.extern,
                    call.nodes,
                    call.sources,
                    found.lines,
                    found.how,
                    found.complete,
                    code.anchor,
                    code.origin,
                )
