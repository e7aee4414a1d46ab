"""Expressions over sizes to what they ask of a size, in words.

    Ne(Mod(s27, 8), 0)                  sizes that are no multiples of 8
    (ids.size()[1] % 8) == 0            multiples of 8
    128*s27 <= 4096                     sizes up to 32
    2 <= x.size()[0] <= 1024            sizes from 2 to 1024
    Eq(s41, 5)                          5 only

Inequalities of sympy as torch prints them (torch/utils/_sympy/printers.py, 2.1 to 2.13), and the Python of guards. A
size is a symbol (`s27`) or `x.size()[1]`. Of what relates several sizes only equality is told; the rest stays quoted.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from necropsy_parsers.grammars.guard import grammar
from necropsy_parsers.numbers import natural

if TYPE_CHECKING:
    from necropsy_parsers.grammars.guard import Node

MAX_LENGTH: Final = 500  # longer ones are made by the compiler for its own ends
_CALLS: Final = {"Eq": "==", "Ne": "!=", "Le": "<=", "Lt": "<", "Ge": ">=", "Gt": ">"}
_MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_DIVISIONS: Final = {"FloorDiv": "//", "CleanDiv": "//", "Mod": "%", "PythonMod": "%", "ModularIndexing": ""}
_OPPOSITE: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class Asked(Struct, frozen=True):
    """What an expression asks of the size `subject`: `words` that follow "holds for"; `only` if one value is left."""

    subject: str
    words: str
    only: int | None = None


class _Bounds(Struct):
    """A set of sizes: from, to, multiple of; `inverted` for all others."""

    low: int | None = None
    high: int | None = None
    inverted: bool = False
    step: int = 1
    rest: int = 0

    def words(self) -> str:
        if self.step > 1:
            if self.rest:
                return f"sizes that {'do not ' if self.inverted else ''}leave {self.rest} when divided by {self.step}"
            return f"sizes that are no multiples of {self.step}" if self.inverted else f"multiples of {self.step}"
        one = self.low is not None and self.low == self.high
        if self.inverted:
            return f"sizes other than {self.low}" if one else f"sizes outside {self.low} to {self.high}"
        if one:
            return f"{self.low} only"
        if self.low is None:
            return f"sizes up to {self.high}"
        return f"sizes from {self.low} on" if self.high is None else f"sizes from {self.low} to {self.high}"


@lru_cache(maxsize=4_096)
def asked(text: str) -> Asked | None:
    """What `text` asks of one size, or None where it is not understood."""
    raw = text.strip()
    if not raw or len(raw) > MAX_LENGTH or raw.count("(") > 40:
        return None
    from lark.exceptions import LarkError

    try:
        return _relation(raw, _bare(grammar().parse(raw)))  # type: ignore[arg-type]
    except (LarkError, RecursionError, ValueError, IndexError):
        return None


def _relation(raw: str, node: Node) -> Asked | None:
    if node.data == "negated":
        inner = _bare(_kids(node)[0])
        sides = _sides(raw, inner)
        return None if sides is None else _solved(raw, sides[0], _OPPOSITE[sides[1]], sides[2])
    if node.data == "compared" and len(_kids(node)) == 5:
        return _chain(raw, node)
    sides = _sides(raw, node)
    return None if sides is None else _solved(raw, *sides)


def _sides(raw: str, node: Node) -> tuple[Node, str, Node] | None:
    """Left side, operator, right side of a comparison or of a call that stands for one; the number on the right."""
    if node.data == "called" and (operator := _CALLS.get(_text(raw, _kids(node)[0]), "")):
        left, right = map(_bare, _kids(_kids(node)[1]))
    elif node.data == "compared" and len(_kids(node)) == 3:
        left, right = _bare(_kids(node)[0]), _bare(_kids(node)[2])
        operator = " ".join(str(t) for t in _kids(node)[1].children)
    else:
        return None
    if operator not in _OPPOSITE:
        return None
    if _number(raw, left) is not None:
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    return left, operator, right


def _chain(raw: str, node: Node) -> Asked | None:
    """`2 <= s0 <= 1024`."""
    low, first, middle, second, high = _kids(node)
    a, b = (_number(raw, _bare(n)) for n in (low, high))
    operators = [" ".join(str(t) for t in n.children) for n in (first, second)]
    if a is None or b is None or any(o not in ("<", "<=") for o in operators):
        return None
    left = _solved(raw, _bare(middle), ">" if operators[0] == "<" else ">=", _bare(low))
    right = _solved(raw, _bare(middle), operators[1], _bare(high))
    if left is None or right is None:
        return None
    words = f"{left.words.removesuffix(' on')}{right.words.removeprefix('sizes up')}"
    return Asked(left.subject, words)


def _solved(raw: str, left: Node, operator: str, right: Node) -> Asked | None:
    bound = _number(raw, right)
    if bound is None:
        mine, other = _size(raw, left), _size(raw, right)
        if mine is None or other is None or operator not in ("==", "!="):
            return None
        return Asked(mine, f"the size of {other}" if operator == "==" else f"sizes other than that of {other}")
    held = _Bounds(inverted=operator == "!=")
    if operator in ("==", "!="):
        held.low = held.high = bound
    elif operator in ("<", "<="):
        held.high = bound - (operator == "<")
    else:
        held.low = bound + (operator == ">")
    subject = _unwound(raw, left, held)
    if subject is None or (held.low is None and held.high is None and held.step == 1):
        return None
    words = held.words()
    return Asked(subject, words, held.low if words.endswith(" only") else None)


def _unwound(raw: str, node: Node, held: _Bounds) -> str | None:
    """Takes one operation after the other off the left side, changing the bounds to match; the size that is left."""
    node = _bare(node)
    if (name := _size(raw, node)) is not None:
        return name
    operation = _operation(raw, node)
    if operation is None or held.step > 1:
        return None
    inner, sign, n = operation
    low, high = held.low, held.high
    if sign == "+":
        held.low, held.high = (None if v is None else v - n for v in (low, high))
    elif sign == "*" and n > 0:
        if low is not None and low == high and low % n:
            return None  # never, or always: nothing to tell
        held.low, held.high = None if low is None else -(-low // n), None if high is None else high // n
    elif sign == "//" and n > 0:
        held.low, held.high = None if low is None else low * n, None if high is None else high * n + n - 1
        if held.inverted and held.low == 0 and held.high is not None:
            held.low, held.high, held.inverted = held.high + 1, None, False  # a size is never negative
        elif held.low == 0 and held.high is not None:
            held.low = None
    elif sign == "%" and n > 1 and low is not None and low == high and 0 <= low < n:
        held.step, held.rest = n, low
    else:
        return None
    return _unwound(raw, inner, held)


def _operation(raw: str, node: Node) -> tuple[Node, str, int] | None:
    """An operation with a number: what it is done to, its sign and the number."""
    if node.data == "called":
        sign, arguments = _DIVISIONS.get(_text(raw, _kids(node)[0]), ""), _kids(_kids(node)[1])
        n = _number(raw, _bare(arguments[1])) if len(arguments) == 2 else None
        return None if not sign or n is None else (arguments[0], sign, n)
    if node.data != "arithmetic" or len(_kids(node)) != 2:
        return None
    left, right = _kids(node)
    sign = raw[left.meta.end_pos : right.meta.start_pos].strip(" ()")
    a, b = _number(raw, _bare(left)), _number(raw, _bare(right))
    if b is not None and sign in ("+", "-", "*", "//", "%"):
        return (left, "+", -b) if sign == "-" else (left, sign, b)
    if a is not None and sign in ("+", "*"):
        return right, sign, a
    return None


def _size(raw: str, node: Node) -> str | None:
    """The text of a size: a symbol or `x.size()[1]`."""
    text = _text(raw, node)
    if node.data == "name" and not text.startswith(("True", "False", "None")):
        return text
    return text if node.data == "item" and ".size()[" in text and text.endswith("]") else None


def _number(raw: str, node: Node) -> int | None:
    text = _text(raw, node)
    return natural(text) if node.data in ("number", "signed") and text.lstrip("-").isdecimal() else None


def _bare(node: Node) -> Node:
    """Without parentheses around it."""
    while node.data == "group":
        inside = _kids(_kids(node)[0])
        if len(inside) != 1:
            raise ValueError("no single expression")
        node = inside[0]
    return node


def _kids(node: Node) -> list[Node]:
    return [c for c in node.children if hasattr(c, "data")]  # type: ignore[misc]


def _text(raw: str, node: Node) -> str:
    return raw[node.meta.start_pos : node.meta.end_pos]
