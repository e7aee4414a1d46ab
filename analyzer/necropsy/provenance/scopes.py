"""A function's statements in order with the loops around them, and what is known of the containers that it fills."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

Loop = ast.For | ast.AsyncFor | ast.While
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
_DEFINES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_TRIMS: Final = frozenset({"pop", "popleft", "popitem", "clear", "remove"})
_MAKE: Final = ("__init__", "__post_init__", "setup")
_COLLECTIONS: Final = frozenset({"dict", "list", "set", "defaultdict", "OrderedDict", "deque"})


class Step(Struct, frozen=True):
    """A statement without others in it, or the head of a loop; `loops` around it, the outermost first."""

    node: ast.stmt
    loops: tuple[Loop, ...]


def scope_of(tree: ast.Module, line: int) -> Scope:
    """The innermost function around a line, or the module."""
    best: Scope = tree
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = node.lineno <= line <= (node.end_lineno or node.lineno)
            if inside and (isinstance(best, ast.Module) or node.lineno > best.lineno):
                best = node
    return best


def flat(scope: Scope) -> list[Step]:
    """The statements of a scope in order, without those of functions and classes in it."""
    return list(_flat(scope.body, ()))


def _flat(body: Sequence[ast.stmt], loops: tuple[Loop, ...]) -> Iterator[Step]:
    for node in body:
        if isinstance(node, _DEFINES):
            continue
        if isinstance(node, Loop):
            inner = (*loops, node)
            yield Step(node, inner)
            yield from _flat(node.body, inner)
            yield from _flat(node.orelse, loops)
        elif nested := list(_bodies(node)):
            for one in nested:
                yield from _flat(one, loops)
        else:
            yield Step(node, loops)


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of an `if`, `with`, `try` or `match`."""
    for name in ("body", "orelse", "finalbody"):
        if block := getattr(node, name, None):
            yield block
    for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield handler.body


def key_of(node: ast.AST | None) -> str:
    """A name or an attribute of names as one word (`history`, `self.losses`); "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := key_of(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def targets_of(node: ast.stmt) -> list[ast.expr]:
    """What a plain assignment binds; parts of tuples one by one."""
    if isinstance(node, ast.Assign):
        found = list(node.targets)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        found = [node.target]
    else:
        return []
    return [part for target in found for part in _parts(target)]


def _parts(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        return [part for element in target.elts for part in _parts(element)]
    return _parts(target.value) if isinstance(target, ast.Starred) else [target]


class Containers:
    """What a module says of the containers that one of its functions fills."""

    def __init__(self, tree: ast.Module, scope: Scope) -> None:
        self._tree, self._scope = tree, scope
        self._steps = flat(scope)
        outer = {n for s in self._steps if isinstance(s.node, ast.Global | ast.Nonlocal) for n in s.node.names}
        bound = {key_of(t) for s in self._steps for t in targets_of(s.node)}
        loops = {key_of(t) for s in self._steps if isinstance(s.node, ast.For) for t in _parts(s.node.target)}
        self._local = {k for k in bound | loops if k and "." not in k} - outer

    def local(self, key: str) -> bool:
        """Whether a name ends with its function: it is made there, and is no module's."""
        return key in self._local and not self.module

    @property
    def module(self) -> bool:
        """Whether the statements are those of the module itself."""
        return isinstance(self._scope, ast.Module)

    def anew(self, key: str, loops: tuple[Loop, ...], store: ast.stmt) -> tuple[bool, bool]:
        """(made anew within the innermost of these loops, within one of the others)."""
        own = [
            s.loops for s in self._steps
            if s.node is not store and key in map(key_of, targets_of(s.node)) and not self._carries_on(key, s.node)
        ]  # fmt: skip
        inner = bool(loops) and any(loops[-1] in made for made in own)
        return inner, not inner and any(loop in made for made in own for loop in loops[:-1])

    def _carries_on(self, key: str, node: ast.stmt) -> bool:
        value = getattr(node, "value", None)
        return isinstance(value, ast.BinOp) and key in map(key_of, ast.walk(value))

    def _values(self, key: str) -> list[ast.expr]:
        """What is assigned to a name in its function; to others anywhere in the module."""
        nodes = (s.node for s in self._steps) if self.local(key) else ast.walk(self._tree)
        return [
            node.value for node in nodes
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
            and key in map(key_of, targets_of(node))
        ]  # fmt: skip

    def collection(self, key: str) -> bool:
        """Whether it is known to be a list, a dict or a set."""
        return any(_is_collection(v) for v in self._values(key))

    def accumulates(self, key: str) -> bool:
        """Whether it starts as a number or as zeros, so that what is added is summed up; an activation does not."""
        return any(
            (isinstance(v, ast.Constant) and isinstance(v.value, int | float) and not isinstance(v.value, bool))
            or (isinstance(v, ast.Call) and key_of(v.func).rpartition(".")[2] in ("zeros", "tensor", "zeros_like"))
            for v in self._values(key)
        )

    def circular(self, key: str) -> bool:
        """Whether it is a deque that drops its oldest."""
        return any(
            isinstance(v, ast.Call) and key_of(v.func).rpartition(".")[2] == "deque"
            and (len(v.args) > 1 or any(k.arg == "maxlen" for k in v.keywords))
            for v in self._values(key)
        )  # fmt: skip

    def trimmed(self, key: str) -> bool:
        """Whether anything empties it, drops parts of it, or makes it anew outside `__init__`."""
        return any(_trims(node, key) for node in ast.walk(self._scope if self.local(key) else self._tree)) or (
            "." in key and self._renewed(key)
        )

    def _renewed(self, key: str) -> bool:
        """Whether another function than `__init__` assigns an attribute."""
        return any(
            isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) and f.name not in _MAKE
            and any(key in map(key_of, targets_of(s.node)) and not self._carries_on(key, s.node) for s in flat(f))
            for f in ast.walk(self._tree)
        )  # fmt: skip


def _is_collection(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return key_of(value.func).rpartition(".")[2] in _COLLECTIONS
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.Mult) and (_is_collection(value.left) or _is_collection(value.right))
    return isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)


def _trims(node: ast.AST, key: str) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TRIMS:
        return key_of(node.func.value) == key
    if isinstance(node, ast.Delete):
        return any(key_of(t.value if isinstance(t, ast.Subscript) else t) == key for t in node.targets)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
        return key_of(node.value.value) == key and key in map(key_of, targets_of(node))
    sliced = [t for t in node.targets if isinstance(t, ast.Subscript)] if isinstance(node, ast.Assign) else []
    return any(isinstance(t.slice, ast.Slice) and key_of(t.value) == key for t in sliced)
