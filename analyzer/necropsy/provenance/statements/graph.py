"""A function's call sites in the order of evaluation, with its loops, branches and comprehensions."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from necropsy.provenance.statements import catalogue
from necropsy.provenance.statements.catalogue import Scope, Site, call_site, ops

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_INLINED = {ast.ListComp: "<listcomp>", ast.SetComp: "<setcomp>", ast.DictComp: "<dictcomp>"}


class Graph:
    """Nodes 0..n-1; node i may show `sites[i]`; `after[i]` are the nodes that can follow without anything shown.

    Nodes without a site pass on. A node with a site that is not `always` can be passed, too:
    it has a way round.
    """

    def __init__(self) -> None:
        self.sites: list[Site | None] = []
        self.after: list[list[int]] = []
        self.around: list[tuple[int, int, int]] = []  # (site, before it, behind it) of those that show always
        self.resumes = False  # a generator or coroutine: each of its frames is a part of the function
        self.entry = self.node()
        self.exit = self.node()

    def node(self, site: Site | None = None) -> int:
        """A new node."""
        self.sites.append(site)
        self.after.append([])
        return len(self.sites) - 1

    def edge(self, a: int, b: int) -> None:
        """`b` can follow `a`."""
        self.after[a].append(b)


class Builder:
    """Walks a function's body; every `_x(node, at)` returns the node at which evaluation goes on."""

    def __init__(self, function: Function, scope: Scope) -> None:
        self.graph, self.scope = Graph(), scope
        self._loops: list[tuple[int, int]] = []  # (continue, break)
        g = self.graph
        body = [ast.Expr(function.body)] if isinstance(function, ast.Lambda) else function.body
        g.edge(self._block(body, g.entry), g.exit)

    # -- statements -----------------------------------------------------------

    def _block(self, body: Iterable[ast.stmt], at: int) -> int:
        for statement in body:
            at = self._statement(statement, at)
        return at

    def _statement(self, s: ast.stmt, at: int) -> int:
        special = getattr(self, f"_{type(s).__name__.lower()}", None)
        if special is not None:
            return int(special(s, at))
        for child in ast.iter_child_nodes(s):
            if isinstance(child, ast.expr):
                at = self._expr(child, at)
        return at

    def _functiondef(self, s: ast.FunctionDef, at: int) -> int:
        for e in (*s.decorator_list, *s.args.defaults, *(d for d in s.args.kw_defaults if d is not None)):
            at = self._expr(e, at)
        return at

    _asyncfunctiondef = _functiondef

    def _classdef(self, s: ast.ClassDef, at: int) -> int:
        for e in (*s.decorator_list, *s.bases):
            at = self._expr(e, at)
        return at

    def _return(self, s: ast.Return, at: int) -> int:
        at = self._expr(s.value, at) if s.value is not None else at
        self.graph.edge(at, self.graph.exit)
        return self.graph.node()

    def _raise(self, s: ast.Raise, at: int) -> int:
        at = self._expr(s.exc, at) if s.exc is not None else at
        self.graph.edge(at, self.graph.exit)
        return self.graph.node()

    def _assign(self, s: ast.Assign, at: int) -> int:
        at = self._expr(s.value, at)
        for target in s.targets:
            at = self._target(target, at)
        return at

    def _annassign(self, s: ast.AnnAssign, at: int) -> int:
        return self._target(s.target, self._expr(s.value, at)) if s.value is not None else at

    def _augassign(self, s: ast.AugAssign, at: int) -> int:
        read = s.target
        if isinstance(read, ast.Subscript):
            at = self._expr(read.slice, self._expr(read.value, at))
            at = self._show(Site(read.end_lineno or s.lineno, ops=ops(catalogue.READING), again=True), at)
        at = self._expr(s.value, at)
        names = frozenset({"wrapped", "_wrapped"})
        at = self._show(Site(s.lineno, names, ops(catalogue.ARITHMETIC[type(s.op)])), at)
        if isinstance(read, ast.Subscript):
            at = self._show(Site(s.lineno, ops=ops(catalogue.WRITING), again=True), at)
        return at

    def _target(self, target: ast.expr, at: int) -> int:
        if isinstance(target, ast.Tuple | ast.List):
            at = self._show(Site(target.lineno, frozenset({"__iter__"}), ops(("unbind",))), at)
            for part in target.elts:
                at = self._target(part, at)
            return at
        if isinstance(target, ast.Subscript):
            at = self._expr(target.slice, self._expr(target.value, at))
            return self._show(Site(target.lineno, ops=ops(catalogue.WRITING), again=True), at)
        if isinstance(target, ast.Attribute):
            return self._show(Site(target.lineno, frozenset({target.attr})), self._expr(target.value, at))
        return at

    def _if(self, s: ast.If, at: int) -> int:
        at = self._truth(s.test, at)
        end = self.graph.node()
        self.graph.edge(self._block(s.body, self._split(at)), end)
        self.graph.edge(self._block(s.orelse, self._split(at)), end)
        return end

    def _while(self, s: ast.While, at: int) -> int:
        head, end = self.graph.node(), self.graph.node()
        self.graph.edge(at, head)
        return self._loop(s.body, s.orelse, self._truth(s.test, head), head, end)

    def _for(self, s: ast.For | ast.AsyncFor, at: int) -> int:
        at = self._show(_iterated(s.iter), self._expr(s.iter, at))
        head, end = self.graph.node(), self.graph.node()
        self.graph.edge(at, head)
        after = self._target(s.target, self._show(_next_of(s.iter), head))
        return self._loop(s.body, s.orelse, after, head, end)

    _asyncfor = _for

    def _loop(self, body: list[ast.stmt], orelse: list[ast.stmt], test: int, head: int, end: int) -> int:
        self._loops.append((head, end))
        self.graph.edge(self._block(body, self._split(test)), head)
        self._loops.pop()
        self.graph.edge(self._block(orelse, self._split(test)), end)
        return end

    def _break(self, s: ast.Break, at: int) -> int:
        self.graph.edge(at, self._loops[-1][1] if self._loops else self.graph.exit)
        return self.graph.node()

    def _continue(self, s: ast.Continue, at: int) -> int:
        self.graph.edge(at, self._loops[-1][0] if self._loops else self.graph.exit)
        return self.graph.node()

    def _try(self, s: ast.Try, at: int) -> int:
        first = len(self.graph.sites)
        body = self._block(s.body, self._split(at))
        inside = range(first, len(self.graph.sites))
        done, caught = self.graph.node(), self.graph.node()
        for n in (at, *inside):
            self.graph.edge(n, caught)
        self.graph.edge(self._block(s.orelse, body), done)
        for handler in s.handlers:
            self.graph.edge(self._block(handler.body, self._split(caught)), done)
        return self._block(s.finalbody, done)

    _trystar = _try

    def _with(self, s: ast.With | ast.AsyncWith, at: int) -> int:
        for item in s.items:
            at = self._expr(item.context_expr, at)
            at = self._target(item.optional_vars, at) if item.optional_vars is not None else at
        return self._block(s.body, at)

    _asyncwith = _with

    def _assert(self, s: ast.Assert, at: int) -> int:
        return self._truth(s.test, at)

    def _match(self, s: ast.Match, at: int) -> int:
        at = self._expr(s.subject, at)
        end = self.graph.node()
        self.graph.edge(at, end)
        for case in s.cases:
            start = self._split(at)
            start = self._truth(case.guard, start) if case.guard is not None else start
            self.graph.edge(self._block(case.body, start), end)
        return end

    # -- expressions ----------------------------------------------------------

    def _expr(self, e: ast.expr, at: int) -> int:
        if isinstance(e, ast.Lambda):
            return at
        if isinstance(e, ast.BoolOp | ast.IfExp):
            return self._branching(e, at)
        if isinstance(e, _Comprehension):
            return self._comprehension(e, at)
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.Not):
            return self._truth(e.operand, at)
        if isinstance(e, ast.Yield | ast.YieldFrom | ast.Await):
            self.graph.resumes = True
        for child in ast.iter_child_nodes(e):
            if isinstance(e, ast.Call) and child is e.func and isinstance(child, ast.Attribute):
                at = self._expr(child.value, at)  # the call shows, not that its method is looked up
            elif isinstance(child, ast.expr):
                at = self._expr(child, at)
            elif isinstance(child, ast.keyword):
                at = self._expr(child.value, at)
        site = self._site(e)
        return at if site is None else self._show(site, at)

    def _site(self, e: ast.expr) -> Site | None:
        if isinstance(e, ast.Call):
            return call_site(e, self.scope)
        if isinstance(e, ast.BinOp):
            found = ops(catalogue.ARITHMETIC[type(e.op)])
            return Site(
                e.left.end_lineno or e.lineno, frozenset({"wrapped", "_wrapped"}), found,
                always=isinstance(e.op, ast.MatMult),
            )  # fmt: skip
        if isinstance(e, ast.Compare):
            names = {n for op in e.ops for n in catalogue.COMPARISONS.get(type(op), catalogue.TRUTH)}
            more = catalogue.TRUTH if len(e.ops) > 1 else ()
            return Site(e.lineno, frozenset({"wrapped", "_wrapped"}), ops((*names, *more)))
        if isinstance(e, ast.UnaryOp):
            return Site(e.lineno, ops=ops(catalogue.UNARY.get(type(e.op), ())))
        if isinstance(e, ast.Subscript):
            if catalogue.no_tensor(e):
                return None
            return Site(e.value.end_lineno or e.lineno, ops=ops(catalogue.READING), again=True)
        if isinstance(e, ast.FormattedValue):
            return Site(e.lineno, frozenset({"__format__", "__str__", "__repr__"}))
        if isinstance(e, ast.Starred):
            return Site(e.lineno, frozenset({"__iter__"}), ops(("unbind",)))
        if isinstance(e, ast.Attribute):
            return Site(e.end_lineno or e.lineno, frozenset({e.attr}), ops(catalogue.PROPERTIES.get(e.attr, ())))
        return None

    def _truth(self, e: ast.expr, at: int) -> int:
        """An expression whose truth is asked: of a tensor that is an operator of its own."""
        at = self._expr(e, at)
        if isinstance(e, ast.BoolOp) or (isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.Not)):
            return at  # its parts were asked
        return self._show(Site(e.lineno, frozenset({"__bool__", "__len__"}), ops(catalogue.TRUTH)), at)

    def _branching(self, e: ast.BoolOp | ast.IfExp, at: int) -> int:
        end = self.graph.node()
        if isinstance(e, ast.IfExp):
            at = self._truth(e.test, at)
            for part in (e.body, e.orelse):
                self.graph.edge(self._expr(part, self._split(at)), end)
            return end
        for part in e.values:
            at = self._truth(part, at)
            self.graph.edge(at, end)
        return end

    def _comprehension(self, e: _Comprehension, at: int) -> int:
        """A frame of its own (before Python 3.12, and always for generators) or a loop in place."""
        first = e.generators[0]
        at = self._show(_iterated(first.iter), self._expr(first.iter, at))
        end = self.graph.node()
        if isinstance(e, ast.GeneratorExp):
            return at  # it runs inside whatever consumes it
        own = self._split(at)
        self.graph.edge(self._show(Site(e.lineno, frozenset({_INLINED[type(e)]})), own), end)
        head = self._split(at)
        within = self._show(_next_of(first.iter), head)
        self.graph.edge(within, end)  # the last fetch shows, too, and finds nothing
        for more in e.generators[1:]:
            within = self._show(_next_of(more.iter), self._expr(more.iter, within))
        for test in (t for g in e.generators for t in g.ifs):
            within = self._truth(test, within)
            self.graph.edge(within, head)
        parts = (e.key, e.value) if isinstance(e, ast.DictComp) else (e.elt,)
        for part in parts:
            within = self._expr(part, within)
        self.graph.edge(within, head)
        return end

    # -- nodes ----------------------------------------------------------------

    def _show(self, site: Site, at: int) -> int:
        """Puts a site behind `at`; the node behind the site is returned."""
        g = self.graph
        node, behind = g.node(site), g.node()
        g.edge(at, node)
        g.around.append((node, at, behind)) if site.always else g.edge(at, behind)
        g.edge(node, behind)
        if site.again:
            g.edge(node, node)
        return behind

    def _split(self, at: int) -> int:
        node = self.graph.node()
        self.graph.edge(at, node)
        return node


def _iterated(e: ast.expr) -> Site:
    """What beginning to iterate can show."""
    return Site(e.lineno, frozenset({"__iter__"}), ops(("unbind",)))


def _next_of(e: ast.expr) -> Site:
    """What fetching the next item can show: the iterator's method, or the frame of a generator called there."""
    called = {
        n.func.attr if isinstance(n.func, ast.Attribute) else n.func.id
        for n in ast.walk(e)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute | ast.Name)
    }
    return Site(e.lineno, frozenset({"__next__", "__iter__", *called}), call=not isinstance(e, ast.Call))
