"""Layers of a built engine, as logs and the engine inspector's JSON tell them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from necropsy_parsers.grammars import layer_name
from necropsy_parsers.grammars.tensor_format import TensorFormat
from necropsy_parsers.records import Record

# Layers that move or hold data and compute nothing: their tensors' types are not a precision that was chosen.
REFORMATS: Final = frozenset({"Reformat", "MyelinReformat", "CudaReformat", "NoOp"})


class EngineTensor(Struct, frozen=True):
    """An input, output or constant of a layer. `dims` are -1 where dynamic, empty where untold or scalar."""

    name: str
    dims: tuple[int, ...] = ()
    format: TensorFormat = TensorFormat("")
    location: str = ""

    @property
    def dtype(self) -> str:
        """fp32, fp16, bf16, int8, ...; "" where untold."""
        return self.format.dtype


class LayerShape(Struct, frozen=True):
    """What a convolution, deconvolution or product computes, as far as told (0, "" and () where untold).

    `kind`: Convolution, Deconvolution, MatrixMultiply, ... (`ParameterType` of the JSON). `out_channels` and `groups`
    of convolutions; `weights` is the type of the weights, `weight_count` their number; `activation` what is fused.
    """

    kind: str = ""
    kernel: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    out_channels: int = 0
    groups: int = 0
    weights: str = ""
    weight_count: int = 0
    activation: str = ""
    operations: int = 0  # of a generated pointwise layer


class EngineLayer(Record, frozen=True):
    """One layer of a built engine.

    `engine` tells engines of one input apart (the input's name, with `#2` and so on for further ones); `index` is the
    layer's place in it, from 0. `type` is TensorRT's (`CaskConvolution`, `Reformat`, `gemm`, `kgen`; "" in names-only
    JSON). `nodes` are the ONNX or network nodes in it: from its metadata where there is any, else from its name.
    `reformat_origin` is why a reformat is there (`REFORMAT`, `QDQ`, `CAST`, ...). `tactic` is the kernel's name,
    `tactic_value` its number as printed. `detail`: names, line (of a log) or full.
    """

    engine: str
    index: int
    name: str
    type: str = ""
    inputs: tuple[EngineTensor, ...] = ()
    outputs: tuple[EngineTensor, ...] = ()
    constants: tuple[EngineTensor, ...] = ()
    shape: LayerShape = LayerShape()
    reformat_origin: str = ""
    tactic: str = ""
    tactic_value: str = ""
    stream: int | None = None
    metadata: str = ""
    nodes: tuple[str, ...] = ()
    detail: str = "names"

    @property
    def moves(self) -> bool:
        """Whether the layer only changes a tensor's type or layout, or copies it."""
        return self.type in REFORMATS or (not self.type and layer_name.parse(self.name).kind in ("reformat", "copy"))


class Engine(Record, frozen=True):
    """One engine whose layers are told; `engine` is their key.

    `release` is TensorRT's version as a number triple where the input tells it, `schema` the form of the JSON (`8`: a
    list of `Bindings`, `11`: objects `I/O Tensors`, "": untold), `detail` as of the layers. `bindings` are names of
    network inputs and outputs in their order, `inputs` and `outputs` the same with types, where told.
    """

    engine: str
    layers: int
    detail: str
    release: tuple[int, ...] = ()
    schema: str = ""
    bindings: tuple[str, ...] = ()
    inputs: tuple[EngineTensor, ...] = ()
    outputs: tuple[EngineTensor, ...] = ()


def nodes_of(name: str, metadata: str = "") -> tuple[str, ...]:
    """ONNX or network nodes of a layer, from its metadata where it has any, else from its name."""
    return layer_name.metadata_nodes(metadata) or layer_name.parse(name).nodes
