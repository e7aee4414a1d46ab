"""Whether the file itself shows that an expression is a tensor, and no module: a module's `cuda` takes one argument."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from necropsy_lsp.edits._names import Names, dotted

# What only a module has; and a tensor is never called.
OF_MODULES: Final = frozenset(
    "parameters named_parameters state_dict load_state_dict train eval modules children zero_grad forward".split()
)
NO_TENSOR: Final = frozenset({"torch.load", "torch.compile", "torch.device"})
WRAPPERS: Final = frozenset({"enumerate", "tqdm", "iter", "track"})  # for x, y in enumerate(loader)

Words = tuple[str, ...]


def is_tensor(value: ast.expr, tree: ast.Module, names: Names) -> bool:
    """A call of a torch function, an element of a batch, or a name that only ever gets one of these."""
    if isinstance(value, ast.Call | ast.Subscript):
        return _shows(value, tree, names)
    words = dotted(value)
    if not words:
        return False
    told = list(_told(words, tree, names))
    return bool(told) and all(told)


def _shows(value: ast.expr, tree: ast.Module, names: Names) -> bool:
    """Whether the expression alone is a tensor."""
    if isinstance(value, ast.Call):
        name = names.qualified(value.func)
        return name.startswith("torch.") and name.count(".") == 1 and name.islower() and name not in NO_TENSOR
    return isinstance(value, ast.Subscript) and _is_batch(dotted(value.value), tree)


def _is_batch(words: Words, tree: ast.Module) -> bool:
    """Whether the name is what a loop over a plain name gives."""
    return bool(words) and any(
        words in _targets(loop.target) and _plain(loop.iter) for loop in ast.walk(tree) if isinstance(loop, ast.For)
    )


def _told(words: Words, tree: ast.Module, names: Names) -> Iterator[bool]:
    """For each place that tells what a name is: whether it is a tensor there."""
    for node in ast.walk(tree):
        if (isinstance(node, ast.Call) and dotted(node.func) == words) or (
            isinstance(node, ast.Attribute) and node.attr in OF_MODULES and dotted(node.value) == words
        ):
            yield False
        elif isinstance(node, ast.For) and words in _targets(node.target):
            yield _plain(node.iter) and isinstance(node.target, ast.Tuple | ast.List)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if words in _targets(target) and not _own_copy(node.value, words):
                    unpacked = isinstance(target, ast.Tuple | ast.List)
                    yield _is_batch(dotted(node.value), tree) if unpacked else _shows(node.value, tree, names)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr | ast.AsyncFor | ast.comprehension | ast.arg):
            yield from (False for target in _given(node) if target == words)


def _given(node: ast.AST) -> Iterator[Words]:
    if isinstance(node, ast.arg):
        yield (node.arg,)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr | ast.AsyncFor | ast.comprehension):
        yield from _targets(node.target)


def _own_copy(value: ast.expr, words: Words) -> bool:
    """`x = x.cuda()` tells nothing new of x."""
    call = value.func if isinstance(value, ast.Call) else value
    return isinstance(call, ast.Attribute) and dotted(call.value) == words


def _plain(value: ast.expr) -> bool:
    """A name, or one in `enumerate(...)` and the like: no `model.children()` or `models.items()`."""
    if isinstance(value, ast.Call) and value.args and dotted(value.func)[-1:] != ():
        return dotted(value.func)[-1] in WRAPPERS and _plain(value.args[0])
    return bool(dotted(value))


def _targets(node: ast.expr) -> Iterator[Words]:
    if isinstance(node, ast.Tuple | ast.List):
        for element in node.elts:
            yield from _targets(element)
    elif isinstance(node, ast.Starred):
        yield from _targets(node.value)
    else:
        yield dotted(node)
