"""Loads and stores of Inductor's IR to how one operation reads what another one wrote, in words.

    MemoryDep('buf0', c0, {c0: 4096})  and  MemoryDep('buf0', 64*c0 + c1, {c0: 64, c1: 16})
        of the 4096 elements that the first makes the second reads 1024
    MemoryDep('buf0', c0, {c0: 4096})  and  MemoryDep('buf0', -64*c0 + c1 + 4032, {c0: 64, c1: 64})
        the second reads what the first makes backwards (flip)

A dependency names a buffer, an index and the ranges of the index's variables (torch/_inductor/dependencies.py, 2.2 to
2.13; a mode may follow). An index in no known form gives no words.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from necropsy_parsers.grammars.guard import grammar
from necropsy_parsers.numbers import natural

if TYPE_CHECKING:
    from necropsy_parsers.grammars.guard import Node

MAX_LENGTH: Final = 1_000


class Access(Struct):
    """One access: coefficients of the variables in the order of their loops, what is added, the loops' lengths.

    `odd` tells that the index divides, takes remainders or calls functions.
    """

    buffer: str
    ranges: dict[str, int | None]
    terms: dict[str, int] = field(default_factory=dict)
    offset: int = 0
    odd: bool = False

    @property
    def count(self) -> int | None:
        """Elements accessed, None if a length is a symbol."""
        lengths = list(self.ranges.values())
        return None if None in lengths else prod(n for n in lengths if n is not None)


def difference(wrote: str, read: str) -> tuple[str, str]:
    """How a second operation reads what a first one wrote, and the kind: size, order, arrangement; "" if unknown."""
    a, b = access(wrote), access(read)
    if a is None or b is None or a.buffer != b.buffer:
        return "", ""
    if a.count is not None and b.count is not None and a.count != b.count:
        return _sizes(a.count, b.count), "size"
    made = "the second reads what the first makes"
    if a.odd or b.odd:
        return f"{made} in another arrangement (reshape, roll, repeat)", "arrangement"
    if any(c < 0 for c in b.terms.values()):
        return f"{made} backwards (flip)", "arrangement"
    if a.terms == b.terms and a.offset != b.offset:
        return f"{made} with an offset of {b.offset - a.offset}", "arrangement"
    if a.count is None or b.count is None:
        return "", ""
    steps = [b.terms.get(v, 0) for v in b.ranges]
    if 0 in steps:
        return "the second reads the elements that the first makes many times (broadcast)", "size"
    if steps != sorted(steps, reverse=True):
        return f"{made} in another order (transpose, permute, reduction over other dimensions)", "order"
    return f"{made} by another index", "arrangement"


def _sizes(made: int, read: int) -> str:
    if read < made:
        return f"of the {made} elements that the first makes the second reads {read}"
    times, left = divmod(read, made)
    each = f"the second reads each of the {made} elements that the first makes {times} times"
    return f"the first makes {made} elements and the second reads {read}" if left else each


@lru_cache(maxsize=4_096)
def access(text: str) -> Access | None:
    """The access that `text` tells of, or None where it is not understood."""
    raw = text.strip()
    if not raw.startswith("MemoryDep(") or len(raw) > MAX_LENGTH or raw.count("(") > 40:
        return None
    from lark.exceptions import LarkError

    try:
        return _access(raw, grammar().parse(raw))  # type: ignore[arg-type]
    except (LarkError, RecursionError, ValueError, IndexError):
        return None


def _access(raw: str, node: Node) -> Access:
    name, index, braces, *_ = _kids(_kids(node)[1])
    if name.data != "string" or braces.data != "braces":
        raise ValueError("no dependency")
    ranges: dict[str, int | None] = {}
    for pair in _kids(braces):
        variable, length = _kids(pair)
        ranges[_text(raw, variable)] = natural(t) if (t := _text(raw, length)).isdecimal() else None
    found = Access(_text(raw, name).strip("'\""), ranges)
    _add(raw, index, 1, found)
    return found


def _add(raw: str, node: Node, times: int, found: Access) -> None:
    """Adds a sum's terms, each a number times a variable; anything else makes the index odd."""
    text = _text(raw, node)
    if node.data == "number" and text.isdecimal():
        found.offset += times * natural(text)
    elif node.data == "name" and text in found.ranges:
        found.terms[text] = found.terms.get(text, 0) + times
    elif node.data == "signed":
        _add(raw, _kids(node)[0], -times if text.startswith("-") else times, found)
    elif node.data == "group":
        _add(raw, _kids(_kids(node)[0])[0], times, found)
    elif node.data == "arithmetic":
        _add_operation(raw, node, times, found)
    else:
        found.odd = True


def _add_operation(raw: str, node: Node, times: int, found: Access) -> None:
    kids = _kids(node)
    signs = [raw[a.meta.end_pos : b.meta.start_pos].strip() for a, b in pairwise(kids)]
    if all(s in ("+", "-") for s in signs):
        for kid, sign in zip(kids, ["+", *signs], strict=True):
            _add(raw, kid, -times if sign == "-" else times, found)
        return
    number = _text(raw, kids[0])
    if signs == ["*"] and number.lstrip("-").isdecimal():
        _add(raw, kids[1], times * natural(number), found)
    else:
        found.odd = True


def _kids(node: Node) -> list[Node]:
    return [c for c in node.children if hasattr(c, "data")]  # type: ignore[misc]


def _text(raw: str, node: Node) -> str:
    return raw[node.meta.start_pos : node.meta.end_pos]
