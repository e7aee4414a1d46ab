"""One layer of the engine inspector's JSON to a record, in the schemas of 8.x, 9.x, 10.x and 11.x.

    "Conv_0 + Relu_1"                                              profiling verbosity: names only
    {"Name": .., "LayerType": "CaskConvolution", "Inputs": [{"Name": .., "Dimensions": [..],
     "Format/Datatype": "Row major linear FP32"}], .., "TacticName": .., "StreamId": 0}          8.x to 10.x
    {"Name": .., "LayerType": "gemm", "Inputs": [{.., "Datatype": "Half", "Format": "(Linear) Row .."}]}  since 10.x

Keys are told apart without case; what is missing stays empty, what is of the wrong kind is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from necropsy_parsers.grammars import tensor_format
from necropsy_parsers.numbers import natural
from necropsy_parsers.records import Anchor
from necropsy_parsers.tensorrt.records import EngineLayer, EngineTensor, LayerShape, nodes_of

MAX_TENSORS: Final = 4_096
_PROFILE: Final = re.compile(r" \[profile (?P<number>\d+)\]$")


def layer(value: Any, anchor: Anchor, engine: str, index: int, seq: int) -> EngineLayer | None:
    """The layer that an item tells; None of an item that is no layer."""
    if isinstance(value, str):
        return EngineLayer(anchor, engine, index, value, nodes=nodes_of(value), seq=seq) if value.strip() else None
    if not isinstance(value, dict):
        return None
    told = {str(k).lower(): v for k, v in value.items()}
    name = told.get("name")
    if not isinstance(name, str):
        return None
    metadata = _text(told.get("metadata"))
    return EngineLayer(
        anchor,
        engine,
        index,
        name,
        type=_text(told.get("layertype") or told.get("type")),
        inputs=tensors(told.get("inputs")),
        outputs=tensors(told.get("outputs")),
        constants=tensors(told.get("constants")),
        shape=_shape(told),
        reformat_origin=_text(told.get("origin")),
        tactic=_text(told.get("tacticname")),
        tactic_value=_text(told.get("tacticvalue")),
        stream=number if isinstance(number := told.get("streamid"), int) else None,
        metadata=metadata,
        nodes=nodes_of(_PROFILE.sub("", name), metadata),
        detail="full" if "layertype" in told else "names",
        seq=seq,
    )


def profile_of(name: str) -> tuple[str, int]:
    """A layer's name without the optimization profile behind it, and that profile's number: `Conv_0 [profile 1]`."""
    m = _PROFILE.search(name)
    return (name[: m.start()], natural(m["number"])) if m else (name, 0)


def tensors(value: Any) -> tuple[EngineTensor, ...]:
    """Tensors of a list of objects; of a list of names the names."""
    if not isinstance(value, list):
        return ()
    return tuple(t for v in value[:MAX_TENSORS] if (t := _tensor(v)) is not None)


def _tensor(value: Any) -> EngineTensor | None:
    if isinstance(value, str):
        return EngineTensor(value)
    if not isinstance(value, dict):
        return None
    told = {str(k).lower(): v for k, v in value.items()}
    joined = _text(told.get("format/datatype"))
    dtype = _text(told.get("datatype"))
    form = joined or _text(told.get("format")) or _profiled(told.get("profileinfo"))
    return EngineTensor(
        _text(told.get("name")),
        _integers(told.get("dimensions")),
        tensor_format.parse(form or dtype, dtype),
        _text(told.get("location")),
    )


def _profiled(value: Any) -> str:
    """The format in the first optimization profile of an `I/O Tensors` entry (11.x)."""
    first = value[0] if isinstance(value, list) and value else None
    return _text(first.get("Format")) if isinstance(first, dict) else ""


def _shape(told: Mapping[str, Any]) -> LayerShape:
    """Parameters of the computation; fused layers (ConvActPool) put `Conv` before the convolution's."""

    def of(key: str) -> Any:
        return told.get(key, told.get("conv" + key))

    weights = of("weights")
    kind = _text(told.get("convparametertype") or told.get("parametertype"))
    operations = told.get("operations")
    return LayerShape(
        kind=kind,
        kernel=_integers(of("kernel")),
        stride=_integers(of("stride")),
        out_channels=_integer(of("outmaps")),
        groups=_integer(of("groups")),
        weights=tensor_format.dtype_of(_text(weights.get("Type"))) if isinstance(weights, dict) else "",
        weight_count=_integer(weights.get("Count")) if isinstance(weights, dict) else 0,
        activation=_text(of("activation")),
        operations=_integer(told.get("noperations")) or (len(operations) if isinstance(operations, list) else 0),
    )


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _integer(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53 else 0


def _integers(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(_integer(v) for v in value[:16] if isinstance(v, int))
