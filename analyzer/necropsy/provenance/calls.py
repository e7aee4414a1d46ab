"""Calls in a function's source: what a process had launched before a line, and which call an op belongs to.

The source is parsed, never imported or run.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

# Calls that queue no work on a GPU: constructors of modules and data, bookkeeping, printing.
_NO_WORK: Final = frozenset(
    "print len range isinstance enumerate zip open str int repr sorted getattr setattr hasattr super list dict set "
    "tuple format append extend join info debug warning error time perf_counter log parse_args is_available no_grad "
    "autocast size dim shape numel manual_seed device dtype state_dict parameters train eval".split()
)


class Call(Struct, frozen=True):
    """A call: its line and last line, its dotted name (`F.cross_entropy`, `emb`, `k[]` for a Triton launch)."""

    line: int
    end_line: int
    name: str
    text: str


def function_span(lines: Sequence[str], line: int) -> tuple[int, int]:
    """First and last line of the innermost function around `line`, or the whole file."""
    best = (1, len(lines))
    for node in ast.walk(_parse(lines)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            end = node.end_lineno or node.lineno
            if node.lineno <= line <= end and end - node.lineno < best[1] - best[0]:
                best = (node.lineno, end)
    return best


def calls_before(lines: Sequence[str], line: int) -> list[Call]:
    """Calls in the same function up to and including `line` that may queue GPU work, in order."""
    first, last = function_span(lines, line)
    found = []
    for node in ast.walk(_parse(lines)):
        if not isinstance(node, ast.Call) or not first <= node.lineno <= min(line, last):
            continue
        name = _name(node.func)
        if name and name.rsplit(".", 1)[-1] not in _NO_WORK:
            found.append(Call(node.lineno, node.end_lineno or node.lineno, name, lines[node.lineno - 1].strip()))
    for node in ast.walk(_parse(lines)):
        if (
            isinstance(node, ast.Subscript)
            and first <= node.lineno <= min(line, last)
            and isinstance(node.ctx, ast.Load)
        ):
            found.append(
                Call(
                    node.lineno,
                    node.end_lineno or node.lineno,
                    f"{_name(node.value)}[]",
                    lines[node.lineno - 1].strip(),
                )
            )
    return sorted(set(found), key=lambda c: (c.line, c.name))


def matching(calls: Sequence[Call], pattern: re.Pattern[str]) -> list[Call]:
    """The calls whose name matches."""
    return [c for c in calls if pattern.search(c.name)]


def definitions(lines: Sequence[str], names: frozenset[str]) -> dict[str, str]:
    """Variables and attributes assigned from a call whose last name is in `names`: `emb` -> `Embedding`."""
    found: dict[str, str] = {}
    for node in ast.walk(_parse(lines)):
        if isinstance(node, ast.Assign):
            made = [_name(c.func).rsplit(".", 1)[-1] for c in ast.walk(node.value) if isinstance(c, ast.Call)]
            kind = next((m for m in made if m in names), "")
            for target in node.targets:
                if kind and (name := _name(target)):
                    found[name] = kind
    return found


def _parse(lines: Sequence[str]) -> ast.AST:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a user's invalid escape is none of our business
            return ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _name(node.value)
        return f"{base}.{node.attr}" if base else node.attr
    if isinstance(node, ast.Subscript):
        return f"{_name(node.value)}[]"
    return ""
