"""The list of layers that the builder prints at the end of a build, to records of engine layers.

    Engine Layer Information:
    Layer(CaskConvolution): /conv/Conv + /Relu, Tactic: 0xc4e4, x (Half[8,3:2,224,224]) -> y (Half[8,64:2,112,112])
    Layer(Reformat): Reformatting CopyNode for Input Tensor 0 to /conv/Conv, Tactic: 0x0, ...

up to 8.x; with detailed verbosity, and in 10.x, 11.x and TensorRT for RTX, whole descriptions under `Layers:`

    Name: __myl_Move_myl0_0, LayerType: kgen, Inputs: [ { Name: image, Dimensions: [8,3], ..., Format: ... }], ...
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from necropsy_parsers.grammars import tensor_format
from necropsy_parsers.numbers import whole
from necropsy_parsers.records import Anchor
from necropsy_parsers.tensorrt.records import EngineLayer, EngineTensor, nodes_of

_LINE: Final = re.compile(r"Layer\((?P<type>\w+)\): (?P<name>.*?), Tactic: (?P<tactic>\S+?),(?: (?P<tensors>.*))?$")
_TENSOR: Final = re.compile(r"(?P<name>\S.*?) ?[(\[](?P<type>[A-Z]\w*)[(\[](?P<dims>[^\])]*)[\])][)\]](?:, |$)")
_NAME: Final = re.compile(r"Name: (?P<name>.*?), LayerType: (?P<type>\w*)(?:, |$)")
# The lists of a description, a thousand characters long, are searched with patterns that begin with words and run on
# to the next comma or brace: `.*?` asks at each character.
_LIST: Final = re.compile(r", (Inputs|Outputs|Constants): \[(?:(?=\])|[^}]*(?:\}(?!\])[^}]*)*\}(?=\]))")
_ITEM: Final = re.compile(
    r"\{ Name: ([^,]*(?:,(?! (?:Location|Dimensions|Strides|Datatype|Format)\b)[^,]*)*)"
    r"(, (?:Location|Dimensions|Strides|Datatype|Format)\b[^}]*(?:\}(?!, |$)[^}]*)*)\}(?:, |$)"
)
_VECTORS: Final = {2: "CHW2", 4: "CHW4", 8: "HWC8", 32: "CHW32"}  # 16: CHW16 or HWC16
_PRINTED: Final = re.compile(r"[A-Za-z]\w*\([^()]*(?:\([^()]*\)[^()]*)*\)")  # strides may be expressions
_STREAM: Final = re.compile(r"\d+")
_ORIGIN: Final = re.compile(r"\w+")


def is_layer(text: str) -> bool:
    """Whether a line of the list describes a layer."""
    return text.startswith(("Layer(", "Name: "))


def layer(text: str, engine: str, index: int, anchor: Anchor, seq: int) -> EngineLayer | None:
    """The layer that a line of the list describes."""
    if (m := _LINE.match(text)) is not None:
        source, _, target = _sides(m["tensors"] or "")
        return EngineLayer(
            anchor, engine, index, m["name"], m["type"], _tensors(source), _tensors(target), tactic_value=m["tactic"],
            nodes=nodes_of(m["name"]), detail="line", seq=seq,
        )  # fmt: skip
    if (m := _NAME.match(text)) is not None:
        lists = {found[1]: _items(text, *found.span()) for found in _LIST.finditer(text, m.end("type"))}
        metadata = _told(text, ", Metadata: ", end="")
        origin, stream = _ORIGIN.match(_told(text, ", Origin: ")), _STREAM.match(_told(text, ", StreamId: "))
        return EngineLayer(
            anchor, engine, index, m["name"], m["type"], lists.get("Inputs", ()), lists.get("Outputs", ()),
            lists.get("Constants", ()), reformat_origin=origin[0] if origin else "",
            tactic=_told(text, ", TacticName: "), tactic_value=_told(text, ", TacticValue: "),
            stream=whole(stream[0]) if stream else None, metadata=metadata,
            nodes=nodes_of(m["name"], metadata), detail="full", seq=seq,
        )  # fmt: skip
    return None


def with_formats(tensors: tuple[EngineTensor, ...], printed: str) -> tuple[EngineTensor, ...] | None:
    """Tensors with the formats in which the layer was timed, or None where those are other tensors' formats."""
    found = [tensor_format.parse(text) for text in _PRINTED.findall(printed)]
    if len(found) != len(tensors) or any(
        t.dtype != f.dtype or t.format.pack != f.pack for t, f in zip(tensors, found, strict=True)
    ):
        return None
    return tuple(EngineTensor(t.name, t.dims, f, t.location) for t, f in zip(tensors, found, strict=True))


def _sides(tensors: str) -> tuple[str, str, str]:
    """Inputs and outputs: the arrow that stands between tensors, not one within a name."""
    at = re.search(r"(?:^|[)\]]) ?-> ", tensors)
    if at is None:
        return tensors, "", ""
    cut = at.start() + (0 if tensors[at.start() : at.start() + 1] in ("-", " ") else 1)
    return tensors[:cut].strip(), "->", tensors[at.end() :]


def _tensors(text: str) -> tuple[EngineTensor, ...]:
    return tuple(EngineTensor(m["name"], *_typed(m["type"], m["dims"])) for m in _TENSOR.finditer(text))


@lru_cache(maxsize=4096)  # shapes come again and again, names do not
def _typed(kind: str, printed: str) -> tuple[tuple[int, ...], tensor_format.TensorFormat]:
    dims, pack = _dims(printed)
    # The line tells dimensions, not strides: vectors show as `64:8`, the order of three and more axes does not.
    flat = "CHW" if pack == 1 and len(dims) < 3 else ""
    dtype = tensor_format.dtype_of(kind)
    return dims, tensor_format.TensorFormat(f"{kind}[{printed}]", dtype, _VECTORS.get(pack, flat), pack)


@lru_cache(maxsize=4096)
def _dims(text: str) -> tuple[tuple[int, ...], int]:
    dims, pack = [], 1
    for part in filter(None, (p.strip() for p in text.split(","))):
        size, _, vector = part.partition(":")
        told = whole(size)
        dims.append(-1 if told is None else told)
        pack = whole(vector) or pack
    return tuple(dims), pack


def _items(text: str, start: int, end: int) -> tuple[EngineTensor, ...]:
    return tuple([EngineTensor(m[1], *_described(m[2])) for m in _ITEM.finditer(text, start, end)])


@lru_cache(maxsize=4096)
def _described(rest: str) -> tuple[tuple[int, ...], tensor_format.TensorFormat]:
    dims, _ = _dims(_told(rest, ", Dimensions: [", end="]"))
    both = _told(rest, ", Format/Datatype: ")
    told = both or _told(rest, ", Format: ")
    dtype = "" if both else _told(rest, ", Datatype: ") or _told(rest, ", DataType: ")
    return dims, tensor_format.parse(told, dtype)


def _told(text: str, what: str, end: str = ",") -> str:
    """What stands behind the first `what`, up to `end`; "" where it is missing."""
    at = text.find(what)
    if at < 0:
        return ""
    at += len(what)
    stop = text.find(end, at) if end else -1
    return text[at : stop if stop >= 0 else len(text)].strip()
