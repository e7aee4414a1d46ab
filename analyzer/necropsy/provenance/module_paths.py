"""Names of ONNX nodes and weights to the path of the `nn.Module` that they come from.

    /layer1/layer1.0/conv1/Conv        layer1[0].conv1, operation Conv       torch.onnx.export(dynamo=False), since 1.13
    /layer1/0/conv1/Conv_1             the same, second such operation
    /qkv_1/MatMul                      qkv, called a second time
    layer1.0.conv1.weight              layer1[0].conv1: a parameter under its own name, in exports of any release
    node_conv2d_3                      nothing: exports of dynamo name modules in the node's metadata

Of nodes of older exports (`Conv_22`) the weights beside them in a layer's name tell the module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec import Struct

from necropsy_parsers.numbers import natural

_OPERATION: Final = re.compile(r"(?P<type>[A-Z][A-Za-z0-9]*)(?:_(?P<number>\d+))?")
_PARAMETER: Final = re.compile(
    r"(?P<path>[A-Za-z_]\w*(?:\.\w+)*)\.(?P<what>weight|bias|running_mean|running_var|in_proj_weight|in_proj_bias"
    r"|weight_orig|weight_v|weight_g)(?:_\w+)?"
)
# Tensors are named after the node that writes them, Q/DQ nodes (ModelOpt, onnxruntime) after the tensor.
_TENSOR: Final = re.compile(
    r"(?:_output_\d+)?(?:_(?:[Dd]e)?[Qq]uantize(?:Linear|r)?(?:_(?:Input|Output|\d+))?)*(?:_output_\d+)?$"
)
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*|\d+(?:\.\w+)*")


class ModulePath(Struct, frozen=True):
    """A module by its attributes, outermost first (numbers are items of containers).

    `operation` is the ONNX operation in it ("" where a parameter names the module), `number` which of several such in
    its scope, from 0. `call` counts calls of the module, from 0: the exporter numbers later ones.
    """

    parts: tuple[str, ...]
    operation: str = ""
    number: int = 0
    call: int = 0

    @property
    def shown(self) -> str:
        """As Python writes it: `layer1[0].conv1`; "" of the model itself."""
        text = ""
        for part in self.parts:
            text += f"[{part}]" if part.isdigit() else f".{part}" if text else part
        return text


@lru_cache(maxsize=32_768)
def module_path(name: str) -> ModulePath | None:
    """The path that a node's or parameter's name tells, None where it tells none."""
    name = _TENSOR.sub("", name, count=1)
    if (m := _PARAMETER.fullmatch(name)) is not None:
        return ModulePath(tuple(m["path"].split(".")))
    if not name.startswith("/"):
        return None
    *scopes, last = name[1:].split("/")
    operation = _OPERATION.fullmatch(last)
    if operation is None or any(_MODULE.fullmatch(s) is None for s in scopes):
        return None
    return ModulePath(_plain(scopes), operation["type"], natural(operation["number"] or "0"))


def _plain(scopes: Iterable[str]) -> tuple[str, ...]:
    """`layer1`, `layer1.0`, `layer1.0.conv`: each scope without what the one before says."""
    parts: list[str] = []
    before = ""
    for scope in scopes:
        own = scope.removeprefix(f"{before}.") if before else scope
        parts += own.split(".")
        before = scope
    return tuple(parts)


def without_call(part: str) -> tuple[str, int] | None:
    """`qkv_1` as the second call of `qkv`; None of a name without number."""
    m = re.fullmatch(r"(.*[^_])_(\d+)", part)
    return (m[1], natural(m[2])) if m else None


def common(paths: Iterable[ModulePath]) -> tuple[str, ...]:
    """The innermost module around all of them."""
    parts = [p.parts for p in paths]
    if not parts:
        return ()
    shared: list[str] = []
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return tuple(shared)
