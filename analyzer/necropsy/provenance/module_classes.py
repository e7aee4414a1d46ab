"""Classes of a model's source: which modules they hold under which attribute, and where they call them.

Sources are parsed, never imported. A class is a module if it defines `forward` and sets attributes on `self`; what an
attribute holds follows from the call that is assigned to it: another class, a container of calls, or something else.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

APPENDED: Final = "[]"  # behind an attribute's name: what is appended to it
CONTAINERS: Final = frozenset({"Sequential", "ModuleList", "ModuleDict"})


class Held(Struct, frozen=True):
    """What an attribute or an item of a container is: the call or expression, and the line where it is made."""

    value: ast.expr
    line: int

    @property
    def constructor(self) -> str:
        """Last name of what is called: `Conv2d` of `nn.Conv2d(..)`; "" of what is no call."""
        return called(self.value) if isinstance(self.value, ast.Call) else ""


class ModuleClass(Struct):
    """A class with `forward`: attributes to what they hold (several, where branches differ), and its methods."""

    name: str
    file: str
    bases: tuple[str, ...]
    line: int
    held: dict[str, list[Held]] = field(default_factory=dict)
    methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


def classes_of(file: str, text: str) -> list[ModuleClass]:
    """The classes of a source; none of one that cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    lines = text.splitlines()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            made = ModuleClass(node.name, file, tuple(_last(b) for b in node.bases), node.lineno, lines=lines)
            for item in node.body:
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                    made.methods[item.name] = item
                    _collect(item, made)
            if made.held or "forward" in made.methods:
                found.append(made)
    return found


def _collect(method: ast.FunctionDef | ast.AsyncFunctionDef, made: ModuleClass) -> None:
    """Attributes that a method sets on `self`."""
    for node in ast.walk(method):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                _assigned(target, node.value, made)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            _assigned(node.target, node.value, made)
        elif isinstance(node, ast.Call) and called(node) in ("add_module", "register_module") and len(node.args) == 2:
            name = node.args[0]  # add_module("x", ...)
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                made.held.setdefault(name.value, []).append(Held(node.args[1], node.lineno))
        elif isinstance(node, ast.Call) and called(node) == "append" and (grown := _attribute(node.func)):
            made.held.setdefault(grown + APPENDED, []).extend(Held(a, node.lineno) for a in node.args[:1])


def _assigned(target: ast.expr, value: ast.expr, made: ModuleClass) -> None:
    if isinstance(target, ast.Tuple | ast.List):
        values = value.elts if isinstance(value, ast.Tuple | ast.List) else [value] * len(target.elts)
        for one, its in zip(target.elts, values, strict=False):
            _assigned(one, its, made)
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
        made.held.setdefault(target.attr, []).append(Held(value, value.lineno))


def _attribute(function: ast.expr) -> str:
    """The attribute of `self` whose method it is: `blocks` of `self.blocks.append`."""
    inner = function.value if isinstance(function, ast.Attribute) else None
    own = isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "self"
    return inner.attr if own and isinstance(inner, ast.Attribute) else ""


def items(held: Held, owner: ModuleClass) -> dict[str, list[Held]]:
    """Items of a container by name or number; "*" holds what any item may be, where their number is not told."""
    value = held.value
    if not isinstance(value, ast.Call):
        return {}
    name = called(value)
    if name not in CONTAINERS:
        return _helped(value, owner)
    args: list[ast.expr] = list(value.args)
    if len(args) == 1 and isinstance(args[0], ast.List | ast.Tuple):
        args = list(args[0].elts)
    elif len(args) == 1 and isinstance(args[0], ast.Dict):
        keys = [k.value if isinstance(k, ast.Constant) else None for k in args[0].keys]
        return {str(k): [Held(v, v.lineno)] for k, v in zip(keys, args[0].values, strict=True) if k is not None}
    if len(args) == 1 and isinstance(args[0], ast.Call) and called(args[0]) == "OrderedDict":
        return _ordered(args[0])
    found: dict[str, list[Held]] = {}
    for number, arg in enumerate(args):
        inner = arg.value if isinstance(arg, ast.Starred) else arg
        if isinstance(inner, ast.ListComp | ast.GeneratorExp):
            found.setdefault("*", []).append(Held(inner.elt, inner.elt.lineno))
        elif isinstance(arg, ast.Starred):
            found.setdefault("*", []).extend(_appended(inner, owner))
        elif "*" not in found:
            found[str(number)] = [Held(arg, arg.lineno)]
    return found


def _ordered(call: ast.Call) -> dict[str, list[Held]]:
    found: dict[str, list[Held]] = {}
    pairs = call.args[0].elts if call.args and isinstance(call.args[0], ast.List | ast.Tuple) else []
    for pair in pairs:
        if isinstance(pair, ast.Tuple) and len(pair.elts) == 2 and isinstance(pair.elts[0], ast.Constant):
            found[str(pair.elts[0].value)] = [Held(pair.elts[1], pair.elts[1].lineno)]
    return found


def _helped(call: ast.Call, owner: ModuleClass) -> dict[str, list[Held]]:
    """Items that a helper method puts into a container (`self._make_layer(..)`): any of what it constructs."""
    function = call.func
    if not (
        isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self"
    ):
        return {}
    method = owner.methods.get(function.attr)
    if method is None or not any(called(c) in CONTAINERS for c in calls(method)):
        return {}
    bound = {a.arg: v for a, v in zip(method.args.args[1:], call.args, strict=False)}
    bound |= {k.arg: k.value for k in call.keywords if k.arg}
    made = []
    for node in calls(method):
        function = node.func
        value: ast.expr = node
        if isinstance(function, ast.Name) and function.id in bound:  # `block(..)`, where the caller passed a class
            passed = bound[function.id]
            value = ast.copy_location(ast.Call(passed, node.args, node.keywords), node)
        if called(node) not in CONTAINERS and called(value)[:1].isupper():
            made.append(Held(value, node.lineno))
    return {"*": made}


def _appended(value: ast.expr, owner: ModuleClass) -> list[Held]:
    """What is appended to the list behind `*layers`, in any method of the class."""
    name = value.id if isinstance(value, ast.Name) else ""
    found = []
    for method in owner.methods.values():
        for call in calls(method):
            function = call.func
            if not (isinstance(function, ast.Attribute) and function.attr in ("append", "extend") and call.args):
                continue
            if isinstance(function.value, ast.Name) and function.value.id == name:
                found.append(Held(call.args[0], call.lineno))
    return found


def calls(node: ast.AST) -> Iterator[ast.Call]:
    """All calls in a function or expression."""
    return (n for n in ast.walk(node) if isinstance(n, ast.Call))


def called(call: ast.expr) -> str:
    """Last name of what is called."""
    return _last(call.func) if isinstance(call, ast.Call) else ""


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):  # Generic[T]
        return _last(node.value)
    return node.id if isinstance(node, ast.Name) else ""
