"""A traced frame's function in a source file, if the file is still the one that ran."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from msgspec import Struct

from necropsy.provenance.statements.catalogue import Scope
from necropsy.provenance.statements.graph import Builder, Function, Graph

_COMPREHENSIONS = {
    "<listcomp>": ast.ListComp, "<setcomp>": ast.SetComp, "<dictcomp>": ast.DictComp, "<genexpr>": ast.GeneratorExp,
}  # fmt: skip


class Seen(Struct, frozen=True):
    """A function as a trace names it.

    `entered` is False for frames that were open when the profiler started: their number is
    the line that ran then, not the one that the function starts at.
    """

    function: str
    line: int
    entered: bool = True


class Module:
    """A parsed source file."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self._parents = {c: p for p in ast.walk(self.tree) for c in ast.iter_child_nodes(p)}
        self._graphs: dict[Seen, Graph | None] = {}

    def explains(self, seen: Iterable[Seen]) -> bool:
        """Whether every function that the trace saw stands where it says."""
        return all(self._nodes(s) for s in seen)

    def start(self, seen: Seen) -> int | None:
        """The first line of a function, decorators included; None where several can be meant, and of a module."""
        nodes = self._nodes(seen)
        return _starts(nodes[0]) if len(nodes) == 1 and isinstance(nodes[0], _NAMED) else None

    def graph(self, seen: Seen) -> Graph | None:
        """The call sites of a function; None unless exactly one function is meant."""
        if seen not in self._graphs:
            nodes = self._nodes(seen)
            self._graphs[seen] = self._built(nodes[0]) if len(nodes) == 1 else None
        return self._graphs[seen]

    def _built(self, node: ast.AST) -> Graph:
        function: Function
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            function = _as_loop(node)
        else:
            assert isinstance(node, Function)
            function = node
        return Builder(function, self._scope(node)).graph

    def _nodes(self, seen: Seen) -> list[ast.AST]:
        name = seen.function.rpartition(".")[2] if not seen.function.startswith("<") else seen.function
        if name == "<module>":
            return [self.tree]
        if name in _COMPREHENSIONS:
            kind = _COMPREHENSIONS[name]
            return [n for n in ast.walk(self.tree) if isinstance(n, kind) and _holds(n, seen.line, name)]
        if name == "<lambda>":
            return [n for n in ast.walk(self.tree) if isinstance(n, ast.Lambda) and n.lineno == seen.line]
        named = [n for n in ast.walk(self.tree) if isinstance(n, _NAMED) and n.name == name]
        if seen.entered:
            return [n for n in named if _starts(n) == seen.line] or [n for n in named if _yields(n, seen.line)]
        around = [n for n in named if n.lineno <= seen.line <= (n.end_lineno or n.lineno) and _calls(n, seen.line)]
        return list(sorted(around, key=_starts)[-1:])  # the innermost

    def _scope(self, node: ast.AST) -> Scope:
        owner: ast.AST | None = node
        local: set[str] = set()
        while owner is not None and not isinstance(owner, ast.ClassDef):
            if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                local |= _locals(owner)
            owner = self._parents.get(owner)
        imported, functions, classes = _names_of(self.tree)
        nested = {n.name for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
        generators = {n.name for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef) and _generates(n)}
        methods = frozenset(n.name for n in owner.body if isinstance(n, _NAMED)) if owner is not None else frozenset()
        attributes = _modules_of(owner) if owner is not None else {}
        return Scope(
            imported, frozenset(functions | nested), frozenset(generators), frozenset(classes), methods, attributes,
            frozenset(local),
        )  # fmt: skip


_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _starts(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _holds(node: ast.AST, line: int, name: str) -> bool:
    """Whether a comprehension's frame can have this number: its first line, of a resumed generator any of its lines."""
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    return bool(first <= line <= last if name == "<genexpr>" else first == line)


def _generates(node: ast.FunctionDef) -> bool:
    """Whether a function is a generator; one that is made a context manager is not called as one."""
    managed = any("contextmanager" in ast.dump(d) for d in node.decorator_list)
    return not managed and any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(node))


def _yields(node: ast.AST, line: int) -> bool:
    """Whether a generator can have been resumed on this line: that is the number of such a frame."""
    return any(
        isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) and n.lineno <= line <= (n.end_lineno or n.lineno)
        for n in ast.walk(node)
    )


def _calls(node: ast.AST, line: int) -> bool:
    """Whether something on this line could have started the profiler: a call or a `with`."""
    return any(
        isinstance(n, ast.Call | ast.With) and n.lineno <= line <= (n.end_lineno or n.lineno) for n in ast.walk(node)
    )


def _as_loop(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> ast.Lambda:
    """A comprehension's own frame as a function: its first iterable was evaluated outside."""
    empty = ast.Name("_", ast.Load(), lineno=node.lineno, col_offset=0, end_lineno=node.lineno, end_col_offset=0)
    first, *more = node.generators
    inner = ast.comprehension(first.target, empty, first.ifs, first.is_async)
    parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    body = ast.ListComp(ast.Tuple(parts, ast.Load()), [inner, *more])
    whole = ast.copy_location(ast.Lambda(ast.arguments([], [], None, [], [], None, []), body), node)
    return ast.fix_missing_locations(whole)


def _locals(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    a = node.args
    found = {x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if x is not None}
    body = node.body if isinstance(node.body, list) else [node.body]
    for part in body:
        found |= {n.id for n in ast.walk(part) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found


def _names_of(tree: ast.Module) -> tuple[dict[str, str], set[str], set[str]]:
    imported: dict[str, str] = {}
    functions, classes = set(), set()
    assigned = set()
    for n in ast.walk(tree):
        if isinstance(n, ast.Import | ast.ImportFrom):
            for a in n.names:
                plain = a.name.rpartition(".")[2]
                imported[a.asname or a.name.partition(".")[0]] = plain
    for s in tree.body:
        if isinstance(s, ast.ClassDef):
            classes.add(s.name)
        elif isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.add(s.name)
        assigned |= {n.id for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return {k: v for k, v in imported.items() if k not in assigned}, functions - assigned, classes - assigned


def _modules_of(owner: ast.AST) -> dict[str, tuple[str, ...]]:
    """`self.X = nn.Linear(...)` of a class: X -> the classes that it can be of; () for what is no such call."""
    found: dict[str, tuple[str, ...]] = {}
    unknown: set[str] = set()
    for n in ast.walk(owner):
        if not isinstance(n, ast.Assign):
            continue
        for target, value in _pairs(n):
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                classes = _classes(value)
                found[target.attr] = (*found.get(target.attr, ()), *classes)
                if not classes:
                    unknown.add(target.attr)
    return {k: v for k, v in found.items() if k not in unknown}


def _pairs(n: ast.Assign) -> Iterable[tuple[ast.expr, ast.expr]]:
    for target in n.targets:
        if isinstance(target, ast.Tuple) and isinstance(n.value, ast.Tuple) and len(target.elts) == len(n.value.elts):
            yield from zip(target.elts, n.value.elts, strict=True)
        else:
            yield target, n.value


def _classes(value: ast.expr) -> tuple[str, ...]:
    if isinstance(value, ast.IfExp):
        a, b = _classes(value.body), _classes(value.orelse)
        return (*a, *b) if a and b else ()
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute | ast.Name):
        name = value.func.attr if isinstance(value.func, ast.Attribute) else value.func.id
        return (name,) if name[:1].isupper() else ()
    return ()
