"""Nodes of ONNX models, with the modules and lines that they come from."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from necropsy_parsers.onnxmodel.records import OnnxModel, OnnxNode, Quantization
from necropsy_parsers.records import Anchor

from necropsy.evidence import Table
from necropsy.provenance.dynamo import claimed_frame
from necropsy.provenance.module_paths import module_path


class OnnxNodeRow(Struct, frozen=True):
    """A node; see `OnnxNodes.columns`."""

    model: str
    index: int
    name: str
    op: str
    domain: str
    inputs: list[str]
    outputs: list[str]
    module: str
    file: str
    line: int | None
    text: str
    function: str
    attributes: dict[str, int | float | str]
    quantization: Quantization | None
    anchor: Anchor


class OnnxNodes(Table[OnnxNodeRow]):
    """One row a node; `models` are the models, `by_name` finds a node by its name or by a tensor that it writes."""

    name = "onnx_nodes"
    row = OnnxNodeRow
    accepts = (OnnxNode, OnnxModel)
    formats = ("onnx_model",)
    supply = "the ONNX model, and `pip install 'necropsy[tensorrt]'` to read it"
    columns: ClassVar[dict[str, str]] = {
        "model": "the file",
        "index": "place in the graph, from 0",
        "name": "the node's name, which TensorRT's layers are made of",
        "op": "ONNX operation",
        "domain": "operator set, empty of ONNX's own",
        "inputs": "names of tensors that it reads",
        "outputs": "names of tensors that it writes",
        "module": "path of the nn.Module, from the name or the exporter's metadata; empty where neither tells",
        "file": "the user's file, from metadata of a dynamo export",
        "line": "line in it, None where untold",
        "text": "the source text quoted there",
        "function": "function of that line",
        "attributes": "attributes that rules ask for (training_mode, group, axis, ...)",
        "quantization": "scales of a Q/DQ node, None of others",
        "anchor": "the model",
    }

    def __init__(self) -> None:
        super().__init__()
        self.models: list[OnnxModel] = []
        self.by_name: dict[str, OnnxNodeRow] = {}

    def add(self, record: Any) -> None:
        """A row a node."""
        if isinstance(record, OnnxModel):
            self.models.append(record)
            return
        frame = claimed_frame(record.stack)
        row = OnnxNodeRow(
            record.model,
            record.index,
            record.name,
            record.op,
            record.domain,
            list(record.inputs),
            list(record.outputs),
            module_of(record),
            frame.file if frame is not None else "",
            frame.line if frame is not None else None,
            frame.text if frame is not None else "",
            frame.function if frame is not None else "",
            record.attributes,
            record.quantization,
            record.anchor,
        )
        self.rows.append(row)
        for name in (record.name, *record.outputs, *(f"node_of_{o}" for o in record.outputs[:1])):
            if name:
                self.by_name.setdefault(name, row)


def module_of(node: OnnxNode) -> str:
    """Path of the innermost module around a node, as Python writes it."""
    if node.scopes:
        shown = ""
        for part in node.scopes[-1].split("."):
            shown += f"[{part}]" if part.isdigit() else f".{part}" if shown else part
        return shown
    path = module_path(node.name)
    return path.shown if path is not None else ""
