"""Guards of torch's compiler to what they compare: whose value, which property, expected and actual.

    self.steps == 3                                        an int of `self.steps`, expected 3
    tensor 'x' size mismatch at index 0. expected 48, actual 41     dimension 0 of `x`, 48 -> 41
    2 <= L['x'].size()[1] <= 1024                          dimension 1 of `x`, expected 2 <= _ <= 1024
    ___check_type_id(mask, 9441), type=<class 'list'>      type of `mask`, expected list
    GLOBAL_STATE changed: grad_mode                        grad_mode

Guards are Python expressions that are printed when they fail (torch/_dynamo/guards.py), or sentences of the C++
guards (torch/csrc/dynamo/guards.cpp). Whatever is in no known form stays raw.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct

from necropsy_parsers.numbers import natural

if TYPE_CHECKING:
    from lark import Lark, Tree

    Node = Tree[object]

MAX_LENGTH: Final = 2_000  # a guard on a long list is quoted, not understood
GRAMMAR: Final = r"""
?start: test
    | test "," "type" "=" OPAQUE              -> typed
?test: conjunction
    | conjunction ("or" conjunction)+         -> either
?conjunction: negation
    | negation ("and" negation)+              -> all
?negation: comparison
    | "not" negation                          -> negated
?comparison: sum
    | sum (operator sum)+                     -> compared
!operator: "==" | "!=" | "<=" | ">=" | "<" | ">" | "is" | "is" "not" | "in" | "not" "in"
?sum: product
    | product (("+" | "-" | "|" | "&" | "^") product)+    -> arithmetic
?product: unary
    | unary (("*" | "/" | "//" | "%" | "@") unary)+       -> arithmetic
?unary: power
    | ("-" | "+" | "~") unary                 -> signed
?power: postfix
    | postfix "**" unary                      -> arithmetic
?postfix: atom
    | postfix "." NAME                        -> member
    | postfix "[" subscript "]"               -> item
    | postfix "(" [arguments] ")"             -> called
subscript: [test] (":" [test])* ("," test)*
arguments: argument ("," argument)* [","]
?argument: NAME "=" test                      -> keyword
    | test
?atom: NAME                                   -> name
    | NUMBER                                  -> number
    | STRING+                                 -> string
    | OPAQUE                                  -> opaque
    | "(" [arguments] ")"                     -> group
    | "[" [arguments] "]"                     -> sequence
    | "{" [pair ("," pair)* [","]] "}"        -> braces
pair: test [":" test]

OPAQUE: /<(?![=<])[^<>=](?:[^<>]|<[^<>]*>)*>/
STRING: /[rbuf]?'(?:[^'\\]|\\.)*'|[rbuf]?"(?:[^"\\]|\\.)*"/
NUMBER: /0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?j?|\.\d+(?:[eE][+-]?\d+)?/
NAME: /[^\W\d]\w*/
%ignore /\s+/
"""


class Guard(Struct, frozen=True):
    """A guard that failed.

    `kind`: int, float, bool, str, none, value (a constant of another type), size, stride, rank, dtype, device,
    keyset, requires_grad, length, keys, membership, attribute, type, identity, alias, missing, deallocated,
    state, backend, config, condition, unknown. `source` is whose value, as Python would write it; `dim` of a
    size; `operator`, `expected` and `actual` are texts, "" where the guard does not tell. `term` is what of the size is
    compared, if not the size itself: `_ % 8`.
    """

    raw: str
    kind: str = "unknown"
    source: str = ""
    dim: int | None = None
    operator: str = ""
    expected: str = ""
    actual: str = ""
    term: str = ""


_TENSOR: Final = re.compile(
    r"tensor '(?P<name>.+?)' (?:(?P<kind>dtype|rank|size|stride|dispatch key set) mismatch(?: at index (?P<dim>\d+))?"
    r"\. expected (?P<expected>.+), actual (?P<actual>.+)"
    r"|(?P<device>Tensor device index mismatch)\. Expected device index to be (?P<was>-?\d+), actual (?P<now>-?\d+)"
    r"|requires_grad mismatch\. expected requires_grad=(?P<grad>\w+))"
)
_SENTENCES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"expected type of '(?P<source>.+?)' to be (?P<expected>.+?),? '? ?but found (?P<actual>.+)"), "type"),
    (re.compile(r"GLOBAL_STATE changed: *(?P<source>.*)"), "state"),
    (re.compile(r"(?P<operator>KeyError|IndexError|getattr failed) on (?:source )?(?P<source>.+)"), "missing"),
    (re.compile(r"Cache line invalidated because (?P<source>.+?)(?: got deallocated)?"), "deallocated"),
    (re.compile(r"Duplicate tensors? found(?: where not expected)?[!:] *(?P<source>.*)"), "alias"),
    (re.compile(r"BACKEND_MATCH failure.*|.*___current_backend\(\).*"), "backend"),
    (re.compile(r"___check_(?:global_state|torch_function_mode_stack)\(\).*"), "state"),
    (re.compile(r"___compile_config_hash\(\).*"), "config"),
    (re.compile(r"utils_device\.CURRENT_DEVICE == (?P<expected>.+)"), "default device"),
)
_KEYSET: Final = "dispatch key set"
_SHOWN: Final = (
    (re.compile(r"""\bL\[\s*(?:'([^'\]]*)'|"([^"\]]*)")\s*\]"""), r"\1\2"),  # locals: bare since torch 2.7
    (re.compile(r"""\bG\[\s*(?:'([^'\]]*)'|"([^"\]]*)")\s*\]"""), r"\1\2"),
    (re.compile(r"\.__dict__\[(['\"])(\w+)\1\]"), r".\2"),
    (re.compile(r"\._(?:modules|parameters|buffers)\[(['\"])(\d+)\1\]"), r"[\2]"),
    (re.compile(r"\._(?:modules|parameters|buffers)\[(['\"])(\w+)\1\]"), r".\2"),
    (re.compile(r"""^getattr\((.+), ['"](\w+)['"](?:, None)?\)"""), r"\1.\2"),
)
_SIZE: Final = re.compile(r"(?P<source>[^\W\d]\w*(?:\.\w+|\[(?:'[^']*'|\"[^\"]*\"|\d+)\])*)\.size\(\)\[(?P<dim>\d+)\]")
# What most guards that fail look like, told as the grammar tells it, which takes a tenth of a second to make.
_SOURCE: Final = r"[^\W\d]\w*(?:\.[^\W\d]\w*|\[(?:'\w+'|\d+)\])*"
_PLAIN: Final = re.compile(
    rf"(?P<source>{_SOURCE}) == (?:(?P<int>\d+)|(?P<str>'\w*'))"
    rf"|___check_type_id\((?P<typed>{_SOURCE}), \d+\), type=<class '(?P<type>[\w.]+)'>"
)
_WORDS: Final = re.compile(r"\b(?:and|or|not|is|in|type|dtype|device|requires_grad|True|False|None|inf|nan)\b")
_MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_CONSTANTS: Final = {"True": "bool", "False": "bool", "None": "none"}


def shown(source: str) -> str:
    """A source as a person would write it: `L['self']._modules['0'].w` is `self[0].w`."""
    for pattern, plain in _SHOWN:
        source = pattern.sub(plain, source)
    return source.strip()


@lru_cache(maxsize=16_384)
def parse(text: str) -> Guard:
    """What the guard `text` compares; of kind unknown if it is in no known form."""
    raw = text.strip()
    if len(raw) > MAX_LENGTH:
        return Guard(raw[:MAX_LENGTH])
    if (m := _TENSOR.fullmatch(raw)) is not None:
        return _tensor(raw, m)
    for pattern, kind in _SENTENCES:
        if (m := pattern.fullmatch(raw)) is not None:
            part = m.groupdict("")
            return Guard(
                raw,
                kind,
                shown(part.get("source", "")),
                None,
                part.get("operator", ""),
                part.get("expected", "").strip(" '"),
                part.get("actual", "").strip(" '"),
            )
    return _expression(raw)


def _tensor(raw: str, m: re.Match[str]) -> Guard:
    name = shown(m["name"])
    if m["grad"]:
        told = {"0": "False", "1": "True"}.get(m["grad"], m["grad"])
        return Guard(raw, "requires_grad", name, None, "==", told, {"False": "True", "True": "False"}.get(told, ""))
    if m["device"]:
        return Guard(raw, "device", name, None, "==", m["was"], m["now"])
    kind = "keyset" if m["kind"] == _KEYSET else m["kind"]
    dim = natural(m["dim"]) if m["dim"] else None
    return Guard(raw, kind, name, dim, "==", m["expected"].strip(), m["actual"].strip())


def _expression(raw: str) -> Guard:
    if not raw or raw.count("(") > 40:
        return Guard(raw)
    if (m := _PLAIN.fullmatch(raw)) is not None and not _WORDS.search(m["source"] or m["typed"]):
        if m["typed"]:
            return Guard(raw, "type", shown(m["typed"]), None, "", m["type"])
        return Guard(raw, "int" if m["int"] else "str", shown(m["source"]), None, "==", m["int"] or m["str"])
    from lark.exceptions import LarkError

    try:
        return _Reader(raw).guard(cast("Node", grammar().parse(raw)))
    except (LarkError, RecursionError, ValueError, IndexError):
        return Guard(raw)


@cache
def grammar() -> Lark:
    """The parser of guards, and of whatever else torch prints as Python expressions."""
    from lark import Lark

    return Lark(GRAMMAR, parser="lalr", propagate_positions=True, maybe_placeholders=False)


class _Reader:
    """Gives a parsed guard its meaning; `raw` is what positions count in."""

    def __init__(self, raw: str) -> None:
        self.raw = raw

    def text(self, node: Node) -> str:
        """The source text of a node."""
        return self.raw[node.meta.start_pos : node.meta.end_pos]

    def made(
        self, kind: str, source: Node | str, operator: str = "", expected: str = "", dim: int | None = None
    ) -> Guard:
        """A guard of that kind on a source."""
        name = source if isinstance(source, str) else self.text(source)
        return Guard(self.raw, kind, shown(name), dim, operator, expected)

    def guard(self, node: Node) -> Guard:
        """What the expression compares."""
        nodes = _nodes(node)
        if node.data == "typed":
            told = re.sub(r"^<(?:class|enum) '(.*)'>$", r"\1", str(node.children[-1])) if len(node.children) > 1 else ""
            found = self.guard(nodes[0])
            return Guard(found.raw, found.kind, found.source, None, found.operator, told) if told else found
        if node.data == "group" and len(nodes) == 1:
            return self.guard(_only(nodes[0]))
        if node.data in ("either", "all"):
            return self.made("condition", "")
        if node.data == "negated":
            return self.negated(self.guard(nodes[0]), nodes[0])
        if node.data == "compared":
            return self.compared(nodes)
        if node.data == "called":
            return self.called(node)
        return self.made("bool", node, "==", "True")

    def negated(self, inner: Guard, node: Node) -> Guard:
        """`not` of a guard: a flag that must be off, an empty sequence, something that must be absent."""
        if inner.kind in ("membership", "attribute"):
            return Guard(self.raw, inner.kind, inner.source, None, "not", inner.expected)
        if inner.kind == "bool":  # torch writes so of empty lists, tuples and dicts, and of False
            return Guard(self.raw, "length", inner.source, None, "==", "0")
        return Guard(self.raw, inner.kind, inner.source, inner.dim, f"not {inner.operator}".strip(), inner.expected)

    def compared(self, nodes: list[Node]) -> Guard:
        """A comparison, perhaps a chain of two."""
        sides, operators = nodes[0::2], [" ".join(str(t) for t in n.children) for n in nodes[1::2]]
        if len(sides) == 3:
            bounds = f"{self.text(sides[0])} {operators[0]} _ {operators[1]} {self.text(sides[2])}"
            return self.one(sides[1], "in range", bounds)
        left, right, operator = sides[0], sides[1], operators[0]
        if left.data in ("number", "signed") and right.data not in ("number", "signed"):
            left, right, operator = right, left, _MIRRORED.get(operator, operator)
        if operator in ("is", "is not"):
            return self.identity(left, right, operator)
        return self.one(left, operator, self.text(right), right)

    def identity(self, left: Node, right: Node, operator: str) -> Guard:
        """`x is None`, `x is y`."""
        if self.text(right) == "None":
            return self.made("none", left, operator, "None")
        if right.data == "string":
            return self.made("str", left, "==", self.text(right))
        return self.made("alias", left, operator, shown(self.text(right)))

    def one(self, left: Node, operator: str, expected: str, right: Node | None = None) -> Guard:
        """A comparison of something on the left with a text."""
        if left.data == "item" and (called := _child(left, "called")) is not None:
            method = _child(called, "member")
            if method is not None and str(method.children[-1]) in ("size", "stride"):
                index = self.text(left)[len(self.text(called)) :].strip("[] ")
                kind, dim = str(method.children[-1]), natural(index) if index.isdecimal() else None
                return self.made(kind, self.text(_node(method)), operator, shown(expected), dim)
            return self.keys(left, expected)
        if left.data == "called":
            return self.call_compared(left, operator, expected)
        if left.data in ("braces", "sequence"):
            return self.made("keys", left, operator, expected)
        if ".size()[" in self.text(left):  # `8*x.size()[0] < 4096`
            return self.sized(left, operator, shown(expected))
        if left.data == "member" and (last := str(left.children[-1])) in ("dtype", "device", "requires_grad"):
            return self.made(last, self.text(_node(left)), operator, expected)
        kind = "value" if right is None else _kind(right, expected)
        return self.made(kind, left, operator, shown(expected))

    def sized(self, left: Node, operator: str, expected: str) -> Guard:
        """A comparison of what is computed from sizes: of one size, or of several."""
        text = self.text(left)
        sizes = {m[0]: m for m in _SIZE.finditer(text)}
        if len(sizes) != 1 or ".size()[" in expected:
            return self.made("size", left, operator, expected)
        ((whole, m),) = sizes.items()
        term = re.sub(r"^\((.*)\)$", r"\1", text.replace(whole, "_"))
        return Guard(self.raw, "size", shown(m["source"]), natural(m["dim"]), operator, expected, term=term)

    def call_compared(self, call: Node, operator: str, expected: str) -> Guard:
        """`len(x) == 2`, `list(d.keys()) == ['a']`, `str(x.dtype) == 'torch.float32'`."""
        name, arguments = self.name(call), self.arguments(call)
        if name == "hasattr" and len(arguments) == 2:
            return self.made(
                "attribute", arguments[0], "not" if expected == "False" else "has", arguments[1].strip("'\"")
            )
        if name == "str" and arguments and (m := re.fullmatch(r"(.+)\.(dtype|device)", arguments[0])) is not None:
            return self.made(m[2], m[1], operator, expected.strip("'\""))
        if name == "len" and arguments:
            # C++ guards print what is, not what should be: `len(d) != 2` failed because 2 was expected.
            return self.made("length", arguments[0], "==" if operator == "!=" else operator, expected)
        if name in ("___tuple_iterator_len", "___normalize_range_iter", "___normalize_count_iter") and arguments:
            return self.made("length", arguments[0], operator, expected)
        if name in ("list", "set", "str", "___dict_const_keys", "___key_to_id", "___dict_param_key_ids"):
            return self.keys(call, expected)
        if name in ("int", "float", "bool", "str") and arguments:
            return self.made(name, arguments[0], operator, expected)
        return self.made("condition", call, operator, expected)

    def keys(self, node: Node, expected: str) -> Guard:
        """The keys of a dict."""
        m = re.search(r"(?:keys\(|list\(|set\(|str\()*([^()]+)", self.text(node).replace("dict.keys(", ""))
        source = re.sub(r"\.keys$", "", m[1]) if m else self.text(node)
        return self.made("keys", source, "==", expected)

    def called(self, node: Node) -> Guard:
        """A guard that is a call of a check."""
        name, arguments = self.name(node), self.arguments(node)
        first = arguments[0] if arguments else ""
        checks: dict[str, Callable[[], Guard]] = {
            "___check_type_id": lambda: self.made("type", first),
            "___check_obj_id": lambda: self.made("identity", first),
            "___dict_contains": lambda: self.made("membership", arguments[1], "in", first),
            "set.__contains__": lambda: self.made("membership", first, "in", arguments[1]),
            "hasattr": lambda: self.made("attribute", first, "has", arguments[1].strip("'\"")),
            "Eq": lambda: self.relation(node, "=="),
            "Ne": lambda: self.relation(node, "!="),
            "Le": lambda: self.relation(node, "<="),
            "Lt": lambda: self.relation(node, "<"),
            "Ge": lambda: self.relation(node, ">="),
            "Gt": lambda: self.relation(node, ">"),
        }
        return checks[name]() if name in checks else self.made("condition", first)

    def relation(self, node: Node, operator: str) -> Guard:
        """A relation of symbolic shapes: `Eq(s0, 8)`."""
        sides = _nodes(_node(node, 1))
        found = self.one(sides[0], operator, self.text(sides[1]))
        return found if found.kind == "size" else self.made("size", sides[0], operator, shown(self.text(sides[1])))

    def name(self, call: Node) -> str:
        """What is called."""
        return self.text(_node(call))

    def arguments(self, call: Node) -> list[str]:
        """The arguments of a call, as texts."""
        inner = _node(call, 1) if len(call.children) > 1 else None
        return [self.text(c) for c in _nodes(inner)] if inner is not None else []


def _nodes(node: Node) -> list[Node]:
    """The children that are no tokens."""
    return [cast("Node", c) for c in node.children if hasattr(c, "data")]


def _node(node: Node, index: int = 0) -> Node:
    child = node.children[index]
    if not hasattr(child, "data"):
        raise ValueError("a token where a node is expected")
    return cast("Node", child)


def _only(node: Node) -> Node:
    """The one argument of a group."""
    inside = _nodes(node)
    if node.data != "arguments" or len(inside) != 1:
        raise ValueError("no single expression")
    return inside[0]


def _child(node: Node, data: str) -> Node | None:
    """The first child, if it is of that rule."""
    child = node.children[0]
    return cast("Node", child) if getattr(child, "data", None) == data else None


def _kind(node: Node, text: str) -> str:
    """The type of a constant."""
    if node.data == "string":
        return "str"
    if node.data == "name":
        return _CONSTANTS.get(text, "float" if text in ("inf", "nan") else "value")
    if node.data in ("number", "signed"):
        number = text.lstrip("+-~ ")
        return (
            "int"
            if re.fullmatch(r"\d+|0x[0-9a-f]+", number)
            else "float"
            if re.fullmatch(r"[\d.eE+-]+|inf|nan", number)
            else "value"
        )
    return "value"
