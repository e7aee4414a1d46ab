"""What a dotted name stands for: through the imports of its file, and only if nothing else gives it a meaning."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct


class Names(Struct, frozen=True):
    """Targets of imported names, and the names that are also given a meaning by other statements."""

    imported: dict[str, set[str]]
    bound: frozenset[str]
    stars: frozenset[str]

    def qualified(self, node: ast.expr) -> str:
        """`torch.utils.data.DataLoader` for whatever the file calls it; empty when that is not sure.

        A name that only a star import can give is looked for by `known_by_star`.
        """
        words = dotted(node)
        if not words or words[0] in self.bound:
            return ""
        targets = self.imported.get(words[0], set())
        return ".".join((*targets, *words[1:])) if len(targets) == 1 else ""

    def means(self, node: ast.expr, *wanted: str) -> bool:
        """Whether the expression stands for one of these qualified names."""
        name = self.qualified(node)
        if name:
            return name in wanted
        words = dotted(node)
        if len(words) != 1 or words[0] in self.bound or words[0] in self.imported:
            return False
        return any(f"{module}.{words[0]}" in wanted for module in self.stars)


def dotted(node: ast.expr) -> tuple[str, ...]:
    """The words of `a.b.c`; empty for any other expression."""
    words: list[str] = []
    while isinstance(node, ast.Attribute):
        words.append(node.attr)
        node = node.value
    return (node.id, *reversed(words)) if isinstance(node, ast.Name) else ()


def names_of(tree: ast.Module) -> Names:
    """The names of a module, those of its functions among them: scopes are not told apart, which can only say no."""
    imported: dict[str, set[str]] = {}
    stars: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                target = alias.name if alias.asname else alias.name.partition(".")[0]
                imported.setdefault(alias.asname or target, set()).add(target)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                if alias.name == "*":
                    stars.add(module)
                else:
                    imported.setdefault(alias.asname or alias.name, set()).add(f"{module}.{alias.name}")
    return Names(imported, frozenset(_bound(tree)), frozenset(stars))


def _bound(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest
