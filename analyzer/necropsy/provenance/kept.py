"""Which statement keeps what a line makes: a list, a dict or a sum that outlives the iteration, by the source alone.

From the line that allocated, the value is followed through the names of its function, and through `return` to the line
that called it. Statements that store it where it stays are named; copies to the host and numbers keep nothing on the
device. What cannot be followed (an unknown function, an attribute that is overwritten) is not guessed at. The source is
parsed, never imported or run.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from necropsy_parsers.records import Frame

from necropsy.provenance.files import SourceTree
from necropsy.provenance.scopes import Containers, Loop, Step, flat, key_of, scope_of, targets_of

_STORES: Final = frozenset({"append", "appendleft", "extend", "extendleft", "insert"})  # of whatever has them
_SETS: Final = frozenset({"add", "update"})  # of what is known to be a set or a dict: meters have them, too
# Methods and functions that give back a number, text or memory of the host.
_HOST: Final = frozenset({"item", "tolist", "numpy", "cpu", "size", "dim", "numel"})
_NUMBERS: Final = frozenset(
    {"float", "int", "bool", "str", "repr", "len", "hash", "format", "print", "id", "isinstance"}
)
_VIEWS: Final = frozenset(
    """
    view reshape view_as flatten squeeze unsqueeze transpose permute t swapaxes movedim expand narrow select chunk split
    unbind contiguous requires_grad_ items values get
    """.split()
)
_WRAPS: Final = frozenset({"dict", "list", "tuple", "set", "zip", "reversed"})
_FACTS: Final = frozenset("shape dtype device ndim grad_fn requires_grad is_cuda layout name names itemsize".split())
MOST_FRAMES: Final = 8  # callers through which a value is followed
MOST_FILES: Final = 200_000
MOST: Final = 4  # statements that are told


class Kept(Struct, frozen=True):
    """A statement that stores the value: its line, that line's text, what it says, what it stores and in what.

    `detached`: stored through `.detach()`, which frees the graph and not the value. `bounded`: what holds it is
    emptied, cut or made anew elsewhere. `adds`: a sum, which keeps the graph.
    """

    file: str
    line: int
    function: str
    text: str
    says: str
    holder: str
    stored: str
    detached: bool = False
    bounded: bool = False
    adds: bool = False


def keepers(frames: Sequence[Frame], lines_of: Callable[[str], Sequence[str]]) -> list[Kept]:
    """The statements that keep what the first of these frames (the user's, innermost first) allocated.

    `lines_of` gives the lines of a file as it ran, none where it is not at hand.
    """
    found: list[Kept] = []
    for n, frame in enumerate(frames[:MOST_FRAMES]):
        again = any(_in_loop(f, lines_of(f.file)) for f in frames[n + 1 :])
        stores, returned = _followed(frame, lines_of(frame.file), again)
        found += stores
        if not returned:
            break
    lasting = [k for k in found if not k.bounded] or found
    return list(dict.fromkeys(lasting))[:MOST]


def _in_loop(frame: Frame, lines: Sequence[str]) -> bool:
    """Whether a frame's call stands in a loop of its function."""
    step = _step_at(frame, lines)
    return step is not None and bool(step[1][0].loops)


def _followed(frame: Frame, lines: Sequence[str], again: bool) -> tuple[list[Kept], bool]:
    """(statements of the frame's function that store what its line makes, whether the function returns it).

    `again`: the function itself is called in a loop, so that its own names begin anew.
    """
    found = _step_at(frame, lines)
    if found is None:
        return [], False
    tree, steps = found
    scope = scope_of(tree, frame.line or 0)
    if any(isinstance(n, ast.Yield | ast.YieldFrom) for s in flat(scope) for n in ast.walk(s.node)):
        return [], False
    try:
        return _Flow(frame, lines, Containers(tree, scope), again).run(steps)
    except RecursionError:  # an expression nested deeper than Python's stack
        return [], False


def _step_at(frame: Frame, lines: Sequence[str]) -> tuple[ast.Module, list[Step]] | None:
    """(the module, the statement at a frame's line and those behind it in its function)."""
    tree, line = _parsed("\n".join(lines)), frame.line or 0
    steps = flat(scope_of(tree, line)) if tree is not None else []
    for i, s in enumerate(steps):
        if not isinstance(s.node, Loop) and s.node.lineno <= line <= (s.node.end_lineno or 0):
            return (tree, steps[i:]) if tree is not None else None
    return None


@lru_cache(maxsize=16)
def _parsed(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in the source
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Flow:
    """A value on its way through a function; `names` hold it (True: detached)."""

    def __init__(self, frame: Frame, lines: Sequence[str], containers: Containers, again: bool) -> None:
        self.frame, self.lines, self.containers, self.again = frame, lines, containers, again
        self.names: dict[str, bool] = {}
        self.origin = True  # in the statement that made it, whatever is computed is it

    def run(self, steps: Sequence[Step]) -> tuple[list[Kept], bool]:
        """From the step that makes it to the end of the function."""
        found, returned = [], False
        loops = steps[0].loops
        for step in steps:
            within = step.loops[: len(loops)] == loops
            if within:
                found += [k for given in self._stores(step.node) if (k := self._kept(step, *given)) is not None]
            if isinstance(step.node, ast.Return) and step.node.value is not None:
                returned |= self.held(step.node.value) is not None
            self._bind(step.node)
            self.origin = False
            if not self.names:
                break
        return found, returned

    # -- values ---------------------------------------------------------------

    def held(self, e: ast.expr | None) -> bool | None:
        """Whether an expression gives back the value (True: detached), or None."""
        if e is None:
            return None
        if (key := key_of(e)) in self.names:
            return self.names[key]
        if isinstance(e, ast.Call):
            return self._called(e)
        if isinstance(e, ast.Attribute):
            return None if e.attr in _FACTS else self._also(self.held(e.value), e.attr == "data")
        if isinstance(e, ast.Subscript | ast.Starred | ast.NamedExpr | ast.Await):
            return self.held(e.value)
        if isinstance(e, ast.IfExp):
            return self._any((e.body, e.orelse))
        if isinstance(e, ast.Tuple | ast.List | ast.Set):
            return self._any(e.elts)
        if isinstance(e, ast.Dict):
            return self._any(e.values)
        return False if self.origin and isinstance(e, ast.BinOp | ast.UnaryOp | ast.Compare) else None

    def _called(self, e: ast.Call) -> bool | None:
        owner = e.func.value if isinstance(e.func, ast.Attribute) else None
        word = e.func.attr if isinstance(e.func, ast.Attribute) else key_of(e.func)
        if word in _HOST or (owner is None and word in _NUMBERS) or (word == "to" and _to_host(e)):
            return None
        if word == "detach":
            return self._also(self.held(owner), True)
        if owner is None and word in _WRAPS:
            return self._any((*e.args, *(k.value for k in e.keywords)))
        if word in _VIEWS and (inner := self.held(owner)) is not None:
            return inner
        return False if self.origin else None

    def _any(self, parts: Sequence[ast.expr]) -> bool | None:
        states = [s for p in parts if (s := self.held(p)) is not None]
        return all(states) if states else None

    @staticmethod
    def _also(state: bool | None, detached: bool) -> bool | None:
        return None if state is None else state or detached

    # -- statements -----------------------------------------------------------

    def _bind(self, node: ast.stmt) -> None:
        """What a statement does to the names that hold the value."""
        if isinstance(node, ast.For | ast.AsyncFor):
            for part in ast.walk(node.target):
                self.names.pop(key_of(part), None)
            return
        if isinstance(node, ast.Delete):
            for target in node.targets:
                self.names.pop(key_of(target), None)
        value = getattr(node, "value", None)
        state = self.held(value) if targets_of(node) else None
        for target in targets_of(node):
            key = key_of(target.value if isinstance(target, ast.Subscript) else target)
            if key and not isinstance(target, ast.Subscript):
                self.names.pop(key, None)
            if key and state is not None:  # of a part that does not hold it, another one may
                self.names[key] = state

    def _stores(self, node: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
        """(what holds, what it is given, whether it is a sum) of a statement that may store the value."""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from self._given(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            yield node.target, node.value, not isinstance(node.value, ast.List | ast.Tuple)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Constant):
                if self.containers.collection(key_of(target.value)):
                    yield target.value, value, False
            elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and (key := key_of(target)):
                for own, other in ((value.left, value.right), (value.right, value.left)):
                    if key_of(own) == key:
                        yield target, other, not isinstance(other, ast.List | ast.Tuple)

    def _given(self, call: ast.Call) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
        if not isinstance(call.func, ast.Attribute):
            return
        holder = call.func.value
        if isinstance(holder, ast.Call) and isinstance(holder.func, ast.Attribute) and holder.func.attr == "setdefault":
            holder = holder.func.value
        while isinstance(holder, ast.Subscript):
            holder = holder.value
        word = call.func.attr
        if word in _STORES or (word in _SETS and self.containers.collection(key_of(holder))):
            for value in (*call.args[-1:], *(k.value for k in call.keywords)):
                yield holder, value, False

    def _kept(self, step: Step, holder: ast.expr, value: ast.expr, adds: bool) -> Kept | None:
        """The statement, if what holds the value outlives the iteration."""
        key, state = key_of(holder), self.held(value)
        if not key or state is None or key in self.names or self.containers.circular(key):
            return None
        if adds and (state or not self.containers.accumulates(key)):
            return None
        anew, outside = self.containers.anew(key, step.loops, step.node)
        local = self.containers.local(key)
        if local and not adds:
            self.names[key] = state  # it goes where its container goes
        if anew or (not step.loops and (local or self.containers.module)):
            return None
        node, line = step.node, self.lines[step.node.lineno - 1]
        # Columns count bytes of UTF-8.
        says = line.encode()[node.col_offset : node.end_col_offset].decode(errors="replace")
        says = ast.unparse(node) if node.end_lineno != node.lineno else says
        return Kept(
            self.frame.file, node.lineno, self.frame.function, line.strip(), says, key, ast.unparse(value), state,
            outside or (local and self.again) or self.containers.trimmed(key), adds,
        )  # fmt: skip


def _to_host(call: ast.Call) -> bool:
    """`x.to("cpu")`, `x.to(device="cpu")`, `x.to(torch.device("cpu"))`."""
    words = (n.value for a in (*call.args, *(k.value for k in call.keywords)) for n in ast.walk(a)
             if isinstance(n, ast.Constant))  # fmt: skip
    return any(w == "cpu" for w in words)


def sources_of(
    tree: SourceTree, stacks: Iterable[Sequence[Frame]], start: Path = Path()
) -> Callable[[str], Sequence[str]]:
    """Gives the lines of a file if one source of that name is at hand in which each frame stands in its function.

    Of several the one that lies nearest to the input, in the folder `start`, is what ran.
    """
    seen: dict[str, set[tuple[str, int]]] = {}
    for frame in (f for stack in stacks for f in stack):
        seen.setdefault(frame.file, set()).add((frame.function, frame.line or 0))
    known: dict[str, Sequence[str]] = {}

    def lines_of(file: str) -> Sequence[str]:
        if file not in known:
            fitting: dict[int, dict[str, Path]] = {}
            for path in _named_alike(tree, file):
                text = "\n".join(tree.read(path))
                if _stand_in(text, seen.get(file, set())):
                    fitting.setdefault(_distance(path, start), {}).setdefault(text, path)
            nearest = fitting[min(fitting)] if fitting else {}
            known[file] = next(iter(nearest)).split("\n") if len(nearest) == 1 else ()
            if len(nearest) == 1:
                tree.stands_for(file, next(iter(nearest.values())))
        return known[file]

    return lines_of


def _named_alike(tree: SourceTree, file: str) -> list[Path]:
    """The file itself, if it is here; else all of its name: folders are called otherwise on other machines."""
    if (own := Path(file)).is_absolute() and own.is_file():
        return [own]
    name = file.replace("\\", "/").rpartition("/")[2]
    return [path for path in tree.python_files(MOST_FILES) if path.name == name]


def _distance(path: Path, start: Path) -> int:
    """How many folders above the start the first is that holds a file, too."""
    around = set(path.absolute().parents)
    folders = (start.absolute(), *start.absolute().parents)
    return next((i for i, folder in enumerate(folders) if folder in around), len(folders))


def _stand_in(text: str, frames: Iterable[tuple[str, int]]) -> bool:
    """Whether each (function, line) is a line of a function of that name."""
    tree = _parsed(text)
    if tree is None:
        return False
    length = text.count("\n") + 1
    for function, line in frames:
        name, scope = function.rpartition(".")[2], scope_of(tree, line)
        inner = name.startswith("<") and name != "<module>"  # a lambda or a comprehension of whatever stands there
        if line > length or (not inner and name != getattr(scope, "name", "<module>")):
            return False
    return True
