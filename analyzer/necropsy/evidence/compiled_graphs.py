"""Graphs that torch.compile compiled, from TORCH_COMPILE_DEBUG folders."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.formats.inductor_debug import CompiledGraphFile
from necropsy_parsers.records import Frame, Record

from necropsy.evidence import Table


class CompiledGraph(Struct, frozen=True):
    """One graph, put together from the files of its folder."""

    graph: str
    folder: str
    files: tuple[str, ...]
    torch: str = ""
    device: tuple[str, ...] = ()
    calls: int = 0
    nodes: int = 0
    units: int = 0
    fused: int = 0
    kernels: tuple[str, ...] = ()
    extern: tuple[str, ...] = ()
    lines: tuple[Frame, ...] = ()


class CompiledGraphs(Table[CompiledGraph]):
    """One row a graph."""

    name = "compiled_graphs"
    row = CompiledGraph
    accepts = (CompiledGraphFile,)
    formats = ("inductor_debug",)
    supply = "the folder torch_compile_debug of a run with TORCH_COMPILE_DEBUG=1"
    columns: ClassVar[dict[str, str]] = {
        "graph": "name of the graph's folder (model__0_inference_0.0)",
        "folder": "where that folder is",
        "files": "kinds of the files that were read",
        "torch": "release of torch, where a file names it",
        "device": "devices of the scheduler nodes",
        "calls": "operator calls of the FX graph",
        "nodes": "scheduler nodes before fusion (count)",
        "units": "units left after fusion (count)",
        "fused": "units that hold several nodes (count)",
        "kernels": "generated kernels by name",
        "extern": "library calls by name",
        "lines": "the user's lines that the graph names",
    }

    def add(self, record: Record) -> None:
        """Add a file to its graph's row."""
        assert isinstance(record, CompiledGraphFile)
        folder = record.anchor.input.replace("\\", "/").rpartition("/")[0]
        at = next((i for i, row in enumerate(self.rows) if row.folder == folder), None)
        if at is None:
            self.rows.append(CompiledGraph(record.graph, folder, ()))
            at = len(self.rows) - 1
        row = self.rows[at]
        before = record.kind == "ir_pre_fusion" or "ir_pre_fusion" not in row.files
        self.rows[at] = replace(
            row,
            files=(*row.files, record.kind),
            torch=record.torch or row.torch,
            device=record.device or row.device,
            calls=max(row.calls, record.nodes) if record.kind.startswith("fx_") else row.calls,
            nodes=record.nodes if record.kind.startswith("ir_") and before else row.nodes,
            units=record.units if record.kind == "ir_post_fusion" else row.units,
            fused=record.fused if record.kind == "ir_post_fusion" else row.fused,
            kernels=record.kernels or row.kernels,
            extern=record.extern or row.extern,
            lines=record.lines or row.lines,
        )
