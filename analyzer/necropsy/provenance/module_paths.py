"""Names of ONNX nodes and weights to the path of the `nn.Module` that they come from.

    /layer1/layer1.0/conv1/Conv        layer1[0].conv1, operation Conv       torch.onnx.export(dynamo=False), since 1.13
    /layer1/0/conv1/Conv_1             the same, second such operation
    /qkv_1/MatMul                      qkv, called a second time
    layer1.0.conv1.weight              layer1[0].conv1: a parameter under its own name, in exports of any release
    node_conv2d_3                      nothing: exports of dynamo name modules in the node's metadata
    /layer1_0_conv1/convolution_2      layer1_0_conv1: Torch-TensorRT 2.4 joins attributes, which `modules` parts
    layer1.0.conv1/convolution_2       layer1[0].conv1: the same since 2.6, of torch.export; numbered in the graph
    L['self'].layer1.0/relu_1          layer1[0]: the same of torch.compile (`[0]` or `._modules['0']` in some releases)
    %7 : Tensor = aten::relu(%x), scope: __module.stem/__module.stem.act # /lib/functional.py:17:0
                                       stem.act: Torch-TensorRT of TorchScript prints the node (core/util/jit_util.h)

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
# Torch-TensorRT: torch's name of the module around a node (nn_module_stack), and the node's own, with what a converter
# puts behind it (torch_tensorrt/dynamo/conversion/converter_utils.py, get_node_name; since 2.0).
_TRACED: Final = re.compile(
    r"(?:L\[['\"]\w{1,80}['\"]\])?"
    r"(?P<path>(?:[./]?\w{1,200}(?:@\d{1,9})?)?(?:[./]\w{1,200}(?:@\d{1,9})?|\[\d{1,9}\]|\[['\"][\w.]{1,200}['\"]\])*)"
    r"/(?P<node>_{0,2}[a-z]\w{0,200})"
)
# A node as TorchScript prints it: traced ones tell their module, scripted ones only the weights that they read; both
# may tell the place in Python (torch/csrc/jit/ir/ir.cpp, Node::print).
_SCRIPTED: Final = re.compile(
    r"%[^=]{1,2000}= (?:aten|prim|quantized|torchvision)::(?P<op>\w{1,80})(?:\[[^\]]*\])?\((?P<inputs>[^()]*)\)"
    r"(?:, scope: (?P<scope>\S{1,2000}))?(?: # (?P<file>\S[^\n]*?):(?P<line>\d{1,9}):\d{1,9})?"
)
_INPUT: Final = re.compile(r"%(?:self\.)?([A-Za-z_][\w.]*)")
# Names that TorchScript has besides those of torch's graph.
_OPERATORS: Final = {"_convolution": "convolution"} | {
    f"conv{transposed}{n}d": "convolution" for n in (1, 2, 3) for transposed in ("", "_transpose")
}
_NUMBERED: Final = re.compile(r"_(\d{1,9})(?=_[a-z]|$)")
_STEP: Final = re.compile(r"(?P<part>\w+)(?:@(?P<call>\d+))?")
TRACED: Final = "aten."  # what operations of such nodes begin with


class ModulePath(Struct, frozen=True):
    """A module by its attributes, outermost first (numbers are items of containers).

    `operation` is the ONNX operation in it ("" where a parameter names the module), or ATen's (`aten.relu`), `number`
    which of several such in its scope (of ATen's in the graph), from 0. `call` counts calls of the module, from 0: the
    exporter numbers later ones. `flat` are the parts as they were told, where attributes were joined in them.
    """

    parts: tuple[str, ...]
    operation: str = ""
    number: int = 0
    call: int = 0
    flat: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """As Python writes it: `layer1[0].conv1`; "" of the model itself."""
        text = ""
        for part in self.parts:
            text += f"[{part}]" if part.isdigit() else f".{part}" if text else part
        return text


class ScriptNode(Struct, frozen=True):
    """A node of TorchScript: ATen's `operation`, the `path` of its module, and its place in Python, where told."""

    operation: str
    path: ModulePath | None
    file: str
    line: int | None


@lru_cache(maxsize=32_768)
def script_node(name: str) -> ScriptNode | None:
    """What the printed form of a TorchScript node tells, None of other names."""
    if not name.startswith("%") or (m := _SCRIPTED.match(name)) is None:
        return None
    operation = _OPERATORS.get(m["op"], m["op"].rstrip("_"))
    parts: tuple[str, ...] | None = None
    if m["scope"]:
        parts = tuple(m["scope"].rpartition("/")[2].removeprefix("__module").strip(".").split("."))
        parts = () if parts == ("",) else parts
    else:
        named = [w for i in _INPUT.findall(m["inputs"]) if (w := _PARAMETER.fullmatch(re.sub(r"\.\d+$", "", i)))]
        parts = tuple(named[0]["path"].split(".")) if named else None
    path = ModulePath(parts, TRACED + operation) if parts is not None else None
    return ScriptNode(operation, path, m["file"] or "", natural(m["line"]) if m["line"] else None)


@lru_cache(maxsize=32_768)
def module_path(name: str) -> ModulePath | None:
    """The path that a node's or parameter's name tells, None where it tells none."""
    name = _TENSOR.sub("", name, count=1)
    if (m := _PARAMETER.fullmatch(name)) is not None:
        return ModulePath(tuple(m["path"].split(".")))
    if (scripted := script_node(name)) is not None:
        return scripted.path
    if (traced := _TRACED.fullmatch(name)) is not None:
        return _traced(traced["path"], traced["node"])
    if not name.startswith("/"):
        return None
    *scopes, last = name[1:].split("/")
    operation = _OPERATION.fullmatch(last)
    if operation is None or any(_MODULE.fullmatch(s) is None for s in scopes):
        return None
    return ModulePath(_plain(scopes), operation["type"], natural(operation["number"] or "0"))


def _traced(path: str, node: str) -> ModulePath | None:
    """The path of a node of torch's graph; without a dot or bracket it may be any program's."""
    if "/" in path[1:] and not path.startswith("/"):
        return None
    parts = [
        f"{m['part']}_{m['call']}" if m["call"] else m["part"]  # the second call of `act` is `act@1`
        for m in _STEP.finditer(path)
        if m["part"] != "_modules"
    ]
    if any(part.isdigit() for part in parts[:1]):
        return None
    m = _NUMBERED.search(node)  # a converter may have put words behind it: `convolution_3_bias`
    operation = node[: m.start()] if m is not None else node
    return ModulePath(tuple(parts), TRACED + operation, natural(m[1]) if m is not None else 0)


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
