"""What parts of an expression can show in a trace: names of frames, classes of modules, bare operators.

A trace with stacks has a frame for each Python function and each built-in method that is
called, and operators without a frame of their own where the interpreter calls torch
directly: arithmetic, comparison, indexing, `if tensor:`, `float(tensor)`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

ARITHMETIC: Final[dict[type[ast.operator], tuple[str, ...]]] = {
    ast.Add: ("add",),
    ast.Sub: ("sub", "rsub", "subtract"),
    ast.Mult: ("mul", "multiply"),
    ast.Div: ("div", "true_divide", "reciprocal"),
    ast.FloorDiv: ("floor_divide", "div"),
    ast.Mod: ("remainder", "fmod"),
    ast.Pow: ("pow",),
    ast.MatMult: ("matmul", "mm", "bmm"),
    ast.BitAnd: ("__and__", "bitwise_and", "logical_and"),
    ast.BitOr: ("__or__", "bitwise_or", "logical_or"),
    ast.BitXor: ("__xor__", "bitwise_xor", "logical_xor"),
    ast.LShift: ("__lshift__", "bitwise_left_shift"),
    ast.RShift: ("__rshift__", "bitwise_right_shift"),
}
COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, ...]]] = {
    ast.Gt: ("gt", "lt"),
    ast.Lt: ("lt", "gt"),
    ast.GtE: ("ge", "le"),
    ast.LtE: ("le", "ge"),
    ast.Eq: ("eq",),
    ast.NotEq: ("ne",),
}
UNARY: Final[dict[type[ast.unaryop], tuple[str, ...]]] = {ast.USub: ("neg",), ast.Invert: ("bitwise_not",)}
READING: Final = (
    "index", "select", "slice", "narrow", "unsqueeze", "alias", "nonzero", "expand", "view", "lift_fresh", "to",
    "squeeze", "item", "_local_scalar_dense", "tensor",
)  # fmt: skip
WRITING: Final = (*READING, "copy_", "fill_", "index_put_", "masked_fill_", "_index_put_impl_")
TRUTH: Final = ("is_nonzero", "item", "_local_scalar_dense", "equal")
NUMBER: Final = ("item", "_local_scalar_dense", "is_nonzero")
PROPERTIES: Final = {
    "T": ("t", "numpy_T", "permute", "transpose"),
    "mT": ("transpose", "matrix_H", "mT"),
    "H": ("matrix_H", "t", "transpose"),
    "mH": ("adjoint", "transpose"),
    "real": ("real", "view_as_real", "select"),
    "imag": ("imag", "view_as_real", "select"),
    "data": ("detach", "alias"),
}
# Built-in types: calling one makes no frame.
TYPES: Final = frozenset(n for n in dir(builtins) if isinstance(getattr(builtins, n), type))
NUMBERS: Final = frozenset({"float", "int", "bool", "complex", "range"})
# Python's own housekeeping says nothing about torch, and its frames are left out on both sides.
HOUSEKEEPING: Final = frozenset(
    """
    append extend insert pop popleft appendleft remove clear get items keys values setdefault update add discard
    join split strip format startswith endswith lower upper replace encode decode len isinstance issubclass hasattr
    getattr setattr callable iter id hash repr time perf_counter perf_counter_ns monotonic time_ns copy index count
    """.split()
)
# Methods of nn.Module that are generators: their frames show when items are fetched, wherever that is.
GENERATORS: Final = frozenset(
    """
    parameters named_parameters buffers named_buffers children named_children modules named_modules
    """.split()
)
# Methods that no submodule can be named after: nn.Module, Tensor and optimizers have them.
METHODS: Final = frozenset(
    """
    to cpu cuda item numpy tolist float half double bfloat16 int long bool backward detach clone contiguous view
    reshape transpose permute train eval parameters named_parameters modules state_dict load_state_dict zero_grad
    step size dim numel mean sum abs max min argmax argmin softmax squeeze unsqueeze expand requires_grad_ mul_ add_
    copy_ fill_ zero_ nonzero any all synchronize no_sync apply
    """.split()
)


class Site(Struct):
    """A part of an expression that can show: where it stands and as what.

    `names` are of frames, `ops` of bare operators (without `aten::`), `classes` of modules
    (None: of any, `()`: of none). A `call` takes a frame of any name that no site explains
    (decorators rename functions); one that is `wild` is of an unknown thing, which may have
    any name; `always` is a site that shows whenever it is evaluated, if such names show at all (a wild
    one: if the trace has modules that no other site explains); `again` is one that can show
    several times (`x[:n, :n]` slices twice).
    """

    line: int
    names: frozenset[str] = frozenset()
    ops: frozenset[str] = frozenset()
    classes: tuple[str, ...] | None = ()
    call: bool = False
    wild: bool = False
    always: bool = False
    again: bool = False


class Scope(Struct):
    """What names in a function mean: imported ones, those of the file, and the modules of its class."""

    imported: dict[str, str]  # name here -> its last name there
    functions: frozenset[str]
    generators: frozenset[str]
    classes: frozenset[str]
    methods: frozenset[str]
    attributes: dict[str, tuple[str, ...]]  # self.X -> classes of its module
    local: frozenset[str]


def ops(names: Iterable[str]) -> frozenset[str]:
    """Operators and their in-place forms."""
    found = {n for name in names for n in (name, name if name.endswith("_") else name + "_")}
    return frozenset(found)


def call_site(node: ast.Call, scope: Scope) -> Site:
    """What a call can show."""
    func = node.func
    line = func.end_lineno or node.lineno
    if isinstance(func, ast.Name):
        return _of_name(func.id, line, scope)
    if isinstance(func, ast.Attribute):
        return _of_attribute(func, line, scope)
    return Site(line, classes=None, call=True, wild=True)


def _of_name(name: str, line: int, scope: Scope) -> Site:
    if name in scope.generators and name not in scope.local:
        return Site(line, frozenset({name}), call=True, again=True)  # its frame shows when items are fetched
    if name in scope.functions and name not in scope.local:
        return Site(line, frozenset({name}), call=True, always=True)
    if name in scope.local or name not in (*scope.imported, *scope.classes, *dir(builtins)):
        return Site(line, classes=None, call=True, wild=True, always=True)
    if name in TYPES and name not in scope.imported:
        return Site(line, ops=ops(NUMBER) if name in NUMBERS else frozenset())
    plain = scope.imported.get(name, name)
    if name in scope.classes or plain[:1].isupper():
        return Site(line, frozenset({"__init__", "__new__"}), call=True)
    return Site(line, frozenset({plain}), call=True, always=plain not in HOUSEKEEPING)


def _of_attribute(func: ast.Attribute, line: int, scope: Scope) -> Site:
    name, owner = func.attr, func.value
    if name in scope.generators or name in GENERATORS:
        return Site(line, frozenset({name}), classes=None, call=True, again=True)
    own = isinstance(owner, ast.Name) and owner.id == "self"
    if own and name in scope.attributes and name not in scope.methods:
        return Site(line, classes=scope.attributes[name], call=True, always=bool(scope.attributes[name]))
    if own and name not in scope.methods and name not in METHODS:
        return Site(line, frozenset({name}), classes=None, call=True, wild=True)
    fixed = _root(owner) in scope.imported or name in METHODS
    if _root(owner) in scope.imported and name[:1].isupper():
        return Site(line, frozenset({"__init__", "__new__"}), call=True)
    return Site(
        line, frozenset({name}), classes=() if fixed else None, call=True,
        always=name not in HOUSEKEEPING and not name.startswith("__"),
    )  # fmt: skip


def no_tensor(e: ast.Subscript) -> bool:
    """Whether what is indexed is a shape, or by a text: no tensor either way."""
    value = e.value
    told = isinstance(value, ast.Attribute) and value.attr in ("shape", "argv", "environ")
    return told or (isinstance(e.slice, ast.Constant) and isinstance(e.slice.value, str))


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
