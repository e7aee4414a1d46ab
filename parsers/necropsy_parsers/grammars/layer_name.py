r"""Names of TensorRT's layers, to the network nodes that were fused into them.

    conv1.weight + QuantizeLinear_7 + Conv_9 + MaxPool_12          one kernel for four nodes
    Conv_12 + PWN(PWN(Sigmoid_13), Mul_14)                         with generated pointwise code at its end
    b1/conv + b1/relu || b2/reduce + b2/relu                       side by side: convolutions of one input
    {ForeignNode[/norm/ReduceMean.../head/Add]}                    a region for Myelin (or DLA), first and last node
    Reformatting CopyNode for Input Tensor 0 to Conv_0 + Relu_1    a change of type or layout, and whose
    (Unnamed Layer* 354) [Shuffle]                                 a layer without a name, by number and type
    copied_squeeze_after_(Unnamed Layer* 361) [ElementWise]        made by the optimizer, and of what
    __myl_AddReshTran_myl0_5, /qkv/MatMul_myl0_6                   a Myelin kernel; the second still bears a node's name
    [CONVOLUTION]-[aten_ops.convolution.default]-[conv1/convolution]    Torch-TensorRT's; before a cast that it makes
                                                                   stands `Cast ITensor x from A to B - `
    %7 : Tensor = aten::relu(%x), scope: __module.act # f.py:7:0   the same, of TorchScript: the node as it is printed

Nodes may hold commas, slashes, brackets and blanks: only ` + `, ` || `, `PWN(..)` and `{ForeignNode[..]}` divide.
What fits no form is one node of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct

from necropsy_parsers.numbers import natural

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

MAX_LENGTH: Final = 100_000  # fused names of large regions are long; longer ones are kept as text
MAX_DEPTH: Final = 400
GRAMMAR: Final = r"""
?start: REFORMAT fusion{outer} -> reformat
    | fusion{outer}
?fusion{leaf}: chain{leaf}
    | chain{leaf} (BESIDE chain{leaf})+     -> beside
?chain{leaf}: item{leaf}
    | item{leaf} (PLUS item{leaf})+         -> chain
?item{leaf}: PWN arguments ")"              -> pointwise
    | FOREIGN fusion{region} ("..." fusion{region})? "]}" -> foreign
    | leaf
?arguments: fusion{inner} (COMMA fusion{inner})*
outer: OUTER     -> node
inner: INNER     -> node
region: REGION   -> node

PWN.4: "PWN("
FOREIGN.4: "{ForeignNode["
REFORMAT.3: /Reformatting CopyNode for (?:Input|Output) Tensor \d+ (?:to|of|from) /
PLUS.2: / \+ /
BESIDE.2: / \|\| /
COMMA.2: /, */
OUTER: /(?:(?! \+ | \|\| ).)+/s
INNER: /(?:\((?:[^()]|\([^()]*\))*\)|(?! \+ | \|\| |, )[^()])+/s
REGION: /(?:(?! \+ | \|\| |\.\.\.|\]\}).)+/s
"""
_PLAIN: Final = re.compile(r"[^\s,(){}|+]+(?:\.[^\s,(){}|+]+)*")
_STRUCTURED: Final = re.compile(r"PWN\(|\{ForeignNode\[| \|\| |^ | $|\n|\+  |  \+")
_TO: Final = re.compile(
    r"Reformatting CopyNode for (?:(?P<side>Input|Output) Tensor (?P<index>\d+) (?:to|of|from) (?P<layer>.+)"
    r"|Network (?P<network>Input|Output) (?P<tensor>.+))"
    r"|(?P<old>.+) (?P<way>input|output) reformatter (?P<number>\d+)",  # TensorRT 7
    re.S,
)
_UNNAMED: Final = re.compile(r"\(Unnamed (?:Layer|ITensor|Network)\*? ?\d*[^)]*\)(?: ?\[[^\]]*\])?")
_TORCH: Final = re.compile(
    r"(?:\[[A-Z_0-9]+\]|(?P<cast>Cast ITensor .{1,400}? from \S+ to \S+ ))-(?(cast) )\[[^\]]+\]-\[(?P<name>.+)\]"
)
_PREFIXES: Final = re.compile(
    r"(?:(?:copied_)?(?:un)?squeeze(?:_node|_tensor)?|(?:re)?shape|shuffle|transpose|cast|unary_not|slice_equivalent|constant_bias)"
    r"_(?:after|before|between|with|from)_(?=.)"
)
_SUFFIXES: Final = re.compile(r"(?: copy|_copy_(?:input|output)|_clone(?:_\d+)?|_(?:before|after)_shuffle)$")
_MYELIN: Final = re.compile(r"(?P<of>.*?)_myl\d+_\d+(?:_\d+)?$")
_GENERATED: Final = re.compile(r"_?_(?:myl|mye|myln)[_\d]|_?_tran\d|_gemm_mha|__cask")
_HELPER: Final = re.compile(r"ONNXTRT_|onnxtrt_")
_OPS: Final = re.compile(r"__myl_(?P<ops>\w+?)(?:_myl\d+_\d+|_0x[0-9a-f]+|$)")
_RECORD: Final = re.compile(r"\[ONNX Layer: (?P<name>.*?)\](?=\[ONNX Layer: |[\x1e\n]|\s*$)", re.S)


class Part(Struct, frozen=True):
    """One node inside a layer's name.

    `kind`: node, unnamed (a layer without a name), made (by the optimizer, `of` another), helper (by the ONNX
    parser), generated (by Myelin), torch (of Torch-TensorRT). `of` is the name to look for in the network.
    """

    text: str
    kind: str
    of: str


class LayerName(Struct, frozen=True):
    """What a layer's name says.

    `kind`: node, chain (`a + b`), beside (`a || b`), pointwise, foreign, reformat, copy. `parts` are the nodes in their
    order; of a foreign region only the first and the last are told. `target` is whose input or output a reformat
    changes, `side` which (input, output, network input, network output), `index` its number.
    """

    raw: str
    kind: str
    parts: tuple[Part, ...]
    target: str = ""
    side: str = ""
    index: int = 0
    understood: bool = True

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of network nodes, without what TensorRT made itself; of a layer that it made, what it made it of."""
        named = [p.of for p in self.parts if p.kind in ("node", "torch")]
        made = [p.of for p in self.parts if p.kind == "made" and not p.of.startswith("(Unnamed")]
        return tuple(dict.fromkeys(named or made))

    @property
    def region(self) -> bool:
        """Whether nodes between the named ones belong to the layer, too."""
        return "{ForeignNode[" in self.raw


@lru_cache(maxsize=32_768)
def parse(text: str) -> LayerName:
    """What the name says; one node where it is in no known form."""
    raw = text.strip()
    if _PLAIN.fullmatch(raw) is not None:
        return LayerName(raw, "node", (part(raw),))
    if (m := _TO.fullmatch(raw)) is not None:
        return _reformat(raw, m)
    if " + " in raw and not _STRUCTURED.search(raw):  # most fused names; the grammar takes ten times as long
        return LayerName(raw, "chain", tuple(part(p) for p in raw.split(" + ")))
    if len(raw) > MAX_LENGTH or raw.count("(") > MAX_DEPTH:
        return LayerName(raw, "node", (Part(raw, "node", raw),), understood=False)
    from lark.exceptions import LarkError

    try:
        tree = grammar().parse(raw)
    except (LarkError, RecursionError, ValueError):
        return LayerName(raw, "node", (part(raw),), understood=" + " not in raw and "PWN(" not in raw)
    parts = tuple(part(leaf) for leaf in _joined(_leaves(tree)))
    kind = str(tree.data)
    if kind == "node" and raw.endswith(" copy"):
        kind = "copy"
    return LayerName(raw, kind, parts)


def _reformat(raw: str, m: re.Match[str]) -> LayerName:
    if m["network"]:
        tensor = m["tensor"]
        return LayerName(raw, "reformat", (), tensor, f"network {m['network'].lower()}")
    target = m["layer"] or m["old"]
    side, index = (m["side"] or m["way"]).lower(), natural(m["index"] or m["number"])
    return LayerName(raw, "reformat", parse(target).parts, target, side, index)


@lru_cache(maxsize=32_768)
def part(text: str) -> Part:
    """One name, and whose it is at bottom: `unsqueeze_node_after_fc.bias` is of `fc.bias`."""
    raw = text.strip()
    if (torch := _TORCH.fullmatch(raw)) is not None:
        return Part(raw, "made" if torch["cast"] else "torch", torch["name"])
    of = raw
    if (m := _MYELIN.fullmatch(of)) is not None:
        of = m["of"]
    if _GENERATED.match(of) or _GENERATED.match(raw):
        return Part(raw, "generated", "")
    made = False
    while True:
        shorter = _SUFFIXES.sub("", _PREFIXES.sub("", of, count=1) if _PREFIXES.match(of) else of)
        if shorter == of or not shorter:
            break
        of, made = shorter, True
    if _UNNAMED.match(of):
        return Part(raw, "made" if made else "unnamed", of)
    if _HELPER.match(of):
        return Part(raw, "helper", of)
    return Part(raw, "made" if made else "node", of)


def myelin_operations(name: str) -> tuple[str, ...]:
    """Operations in a Myelin kernel's name, as it shortens them: Add, Resh, Tran of `__myl_AddReshTran_0xde32`."""
    m = _OPS.match(name)
    return tuple(re.findall(r"[A-Z][a-z0-9]*", m["ops"])) if m else ()


def metadata_nodes(metadata: str) -> tuple[str, ...]:
    """ONNX nodes in a layer's metadata: `[ONNX Layer: /a][ONNX Layer: /b]`, since TensorRT 8.6."""
    return tuple(dict.fromkeys(m["name"] for m in _RECORD.finditer(metadata)))


@cache
def grammar() -> Lark:
    """The parser, made at the first name that is no single node."""
    from lark import Lark

    return Lark(GRAMMAR, parser="lalr", maybe_placeholders=False)


def _joined(leaves: Iterable[str]) -> Iterator[str]:
    """Nodes, of which TorchScript's (`%7 : Tensor = aten::relu(%x), scope: __module.act`) hold a comma."""
    waiting = ""
    for leaf in leaves:
        if waiting and leaf.startswith("scope: "):
            waiting = f"{waiting}, {leaf}"
            continue
        if waiting:
            yield waiting
        waiting = leaf
    if waiting:
        yield waiting


def _leaves(tree: Tree[Token]) -> Iterator[str]:
    """Texts of the nodes in their order, without recursion."""
    stack: list[Tree[Token] | Token] = [tree]
    while stack:
        node = stack.pop()
        if not hasattr(node, "children"):
            continue
        tree = cast("Tree[Token]", node)
        if tree.data == "node":
            yield str(tree.children[0])
        else:
            stack += reversed(tree.children)
