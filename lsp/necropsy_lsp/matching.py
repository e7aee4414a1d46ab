"""Lines of a document to the text that a run saw: equal, similar, and in which function."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from necropsy_lsp.stored import Place
from necropsy_lsp.suppress import without_comment
from necropsy_lsp.text import split_lines

DECORATORS = 20  # lines between a decorator, where Python says that a function starts, and its `def`
NEAR = 15  # lines around the reported one that are searched for similar text
SIMILAR = 0.5  # share of the words that two texts have in common
_DEF = re.compile(r"([ \t]*)(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
_WORD = re.compile(r"\w+")


def seen(line: str) -> str:
    """A line as it is compared: without indentation and without a comment that suppresses findings."""
    return without_comment(line).strip()


@lru_cache(maxsize=4096)
def quoted(place: Place) -> tuple[str, ...]:
    """The lines that the run saw at a place; empty where nothing was quoted."""
    lines = tuple(seen(line) for line in split_lines(place.text.strip()))
    return lines if lines[0] else ()


def defines(place: Place) -> str:
    """The function that a place names without quoting a line of it; empty when it claims a line."""
    name = place.function.rpartition(".")[2]
    return name if place.exactness == "function" and not quoted(place) and name.isidentifier() else ""


def stands(place: Place, lines: Sequence[str], at: int) -> bool:
    """Whether line `at` (0-based) and those after it hold what the run saw at the place."""
    if not 0 <= at < len(lines):
        return False
    if quote := quoted(place):
        return seen(lines[at]) == quote[0] and tuple(map(seen, lines[at : at + len(quote)])) == quote
    name = defines(place)
    found = _DEF.match(lines[at]) if name else None
    return found is not None and found[2] == name


class Function(Struct, frozen=True):
    """A function or class of a document: its name, and its first and last line."""

    name: str
    first: int
    last: int


def functions_of(lines: Sequence[str]) -> list[Function]:
    """Functions and classes by their indentation; good enough for text that does not parse."""
    found: list[Function] = []
    open_: list[tuple[int, str, int]] = []
    last = 0
    for number, line in enumerate(lines):
        bare = line.lstrip()
        if not bare or bare[0] in "#)]}":
            continue
        indent = len(line) - len(bare)
        while open_ and indent <= open_[-1][0]:
            _, name, first = open_.pop()
            found.append(Function(name, first, last))
        if (head := _DEF.match(line)) is not None:
            open_.append((indent, head[2], number))
        last = number
    found += [Function(name, first, last) for _, name, first in open_]
    return found


def inside(place: Place, at: Iterable[int], functions: Sequence[Function]) -> list[int]:
    """Those of the lines `at` that are in the place's function; all of them when none is."""
    lines = list(at)
    name = place.function.rpartition(".")[2]
    own = [f for f in functions if f.name == name]
    return [n for n in lines if any(f.first <= n <= f.last for f in own)] or lines


def similar(place: Place, lines: Sequence[str], near: int) -> int | None:
    """The line around `near` that looks most like what the run saw; None when none does."""
    quote = quoted(place)
    words = set(_WORD.findall(quote[0])) if quote else set()
    best: tuple[float, int, int] | None = None
    for number in range(max(near - NEAR, 0), min(near + NEAR + 1, len(lines))) if words else ():
        others = set(_WORD.findall(seen(lines[number])))
        share = len(words & others) / len(words | others)
        if share >= SIMILAR and (best is None or (share, -abs(number - near)) > best[:2]):
            best = (share, -abs(number - near), number)
    return best[2] if best else None
