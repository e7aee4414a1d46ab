"""Records of ONNX models: the model, its nodes, and what Q/DQ nodes quantize by."""

from __future__ import annotations

from msgspec import Struct, field

from necropsy_parsers.records import Frame, Record


class Quantization(Struct, frozen=True):
    """What a QuantizeLinear or DequantizeLinear node does, as far as its constants are in the graph.

    `scales` are the smallest and the largest, `count` how many (1: per tensor), `bad` how many are zero, negative or
    not finite; `axis` of per-channel scales; `dtype` the quantized type.
    """

    scales: tuple[float, float] | None = None
    count: int = 0
    bad: int = 0
    axis: int | None = None
    dtype: str = ""


class OnnxNode(Record, frozen=True):
    """One node of a model's graph, in its order.

    `scopes` are the modules around it by path (`stem`, `stem.0`), `stack` the frames of the exported program, outermost
    first (both from dynamo exports); `constant_inputs` counts inputs that are initializers; `attributes` holds numbers
    and texts that rules ask for; `quantization` is set on Q/DQ nodes. `graph` is "" or the path of a subgraph.
    """

    model: str
    index: int
    name: str
    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    stack: tuple[Frame, ...] = ()
    constant_inputs: int = 0
    attributes: dict[str, int | float | str] = field(default_factory=dict)
    quantization: Quantization | None = None


class OnnxModel(Record, frozen=True):
    """A model: who made it, for which operator sets, what goes in and out.

    `opsets` is domain to version ("" is ONNX's own); `dtypes` initializer type to how many, `weight_bytes` what was
    passed over; `inputs` and `outputs` are name, type and shape (`batch` where symbolic, ? where untold).
    """

    producer: str
    producer_version: str
    ir_version: int
    opsets: dict[str, int]
    nodes: int
    operations: dict[str, int]
    metadata: dict[str, str]
    initializers: int
    dtypes: dict[str, int]
    weight_bytes: int
    inputs: tuple[tuple[str, str, tuple[str, ...]], ...]
    outputs: tuple[tuple[str, str, tuple[str, ...]], ...]
