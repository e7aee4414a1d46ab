"""How a tensor lies in memory, from what a trace recorded of the operators that make views of it."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import numpy as np
from msgspec import Struct

from necropsy.trace.rank import RankTrace

# Bytes of an element by the type's name in traces (c10::ScalarType as at::toString and C++ spell it).
_BYTES: Final = {
    "float": 4, "double": 8, "int": 4, "long int": 8, "long": 8, "short int": 2, "short": 2, "unsigned char": 1,
    "signed char": 1, "char": 1, "bool": 1, "c10::Half": 2, "c10::BFloat16": 2, "c10::complex<float>": 8,
}  # fmt: skip


class Layout(Struct, frozen=True):
    """Sizes of a tensor and its strides, both in elements."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many."""
        return math.prod(self.sizes)

    @property
    def order(self) -> list[int]:
        """Its dimensions, the outermost in memory first."""
        return sorted(range(len(self.sizes)), key=lambda i: -self.strides[i])


def layout_of(r: RankTrace, view: int) -> Layout | None:
    """The layout of a view's result, of the `as_strided` that made it (torch 2.1 on, `record_shapes=True`)."""
    ops = r.ops
    low, high = np.searchsorted(ops["start"], (ops["start"][view], ops["end"][view]))
    for row in range(int(high) - 1, int(low) - 1, -1):
        if ops["thread"][row] == ops["thread"][view] and r.named(ops, row).startswith("aten::as_strided"):
            values = r.trace.text(int(ops["values"][row]))
            lists = [_numbers(v) for v in values] if isinstance(values, list) else []
            told = [v for v in lists if v is not None]
            if len(told) >= 2 and len(told[0]) == len(told[1]) and min(told[0], default=0) > 0:
                return Layout(told[0], told[1])
            return None
    return None


def joined(r: RankTrace, row: int) -> list[Layout]:
    """The tensors that `torch.stack` or `torch.cat` was given; none if lists are not recorded (by torch 2.11)."""
    told = [r.trace.text(int(r.ops[c][row])) for c in ("dims", "strides")]
    sizes, strides = (t[0] if isinstance(t, list) and t and isinstance(t[0], list) else [] for t in told)
    pairs = list(zip(sizes, strides, strict=True)) if len(sizes) == len(strides) else []
    if not all(_is_numbers(a) and _is_numbers(b) and len(a) == len(b) for a, b in pairs):
        return []
    return [Layout(tuple(a), tuple(b)) for a, b in pairs]


def inside(r: RankTrace, row: int) -> list[int]:
    """The operators inside an operator, in order."""
    ops = r.ops
    low, high = np.searchsorted(ops["start"], (ops["start"][row], ops["end"][row]))
    return [n for n in range(int(low), int(high)) if n != row and ops["thread"][n] == ops["thread"][row]]


def batch_of(r: RankTrace, row: int) -> tuple[int, ...]:
    """Sizes of a stack's result, of the `view` that gives it its first dimension (torch 2.1 on); () if not told."""
    for n in reversed(inside(r, row)):
        if r.named(r.ops, n) == "aten::view":
            values = r.trace.text(int(r.ops["values"][n]))
            told = [v for v in map(_numbers, values) if v is not None] if isinstance(values, list) else []
            return told[0] if told else ()
    return ()


def in_order(layout: Layout) -> bool:
    """Whether elements are copied in runs: the last dimension is still the innermost, or channels are.

    Samples with channels last are stacked in that order (`aten::cat` keeps it of four dimensions and five).
    """
    dims = [(n, s) for n, s in zip(layout.sizes, layout.strides, strict=True) if n > 1]
    if not dims or dims[-1][1] == 1:
        return True
    n = len(layout.sizes)
    if n not in (4, 5):
        return False
    order = [layout.strides[i] for i in (0, *range(2, n), 1)]
    return order[-1] == 1 and order == sorted(order, reverse=True)


def bytes_of(r: RankTrace, view: int, layout: Layout | None) -> int:
    """Bytes of a view's elements; 0 where they are not recorded."""
    types = r.trace.text(int(r.ops["types"][view]))
    first = types[0] if isinstance(types, list) and types else None
    return layout.elements * _BYTES.get(first, 0) if layout is not None and isinstance(first, str) else 0


def elements(r: RankTrace, row: int) -> list[int] | None:
    """Elements of each input of an operator that is a tensor; None where shapes were not recorded."""
    dims = r.trace.text(int(r.ops["dims"][row]))
    if not isinstance(dims, list):
        return None
    return [math.prod(d) for d in dims if isinstance(d, list) and d and all(isinstance(n, int) for n in d)]


def of_batch(r: RankTrace, view: int, name: str, layout: Layout | None) -> tuple[str, str]:
    """(a view as Python calls it on a sample, the same on a batch, "" where its arguments were not recorded)."""
    values = r.trace.text(int(r.ops["values"][view]))
    told = [v for v in (_numbers(v) for v in values) if v is not None] if isinstance(values, list) else []
    if name == "permute" and told:
        n = len(told[0])
        moved = (0, *(d % n + 1 for d in told[0]))
        return f"permute({_listed(told[0])})", f"permute({_listed(moved)})"
    if name in ("transpose", "swapaxes", "swapdims") and len(told) >= 2 and len(told[0]) == len(told[1]) == 1:
        dims = told[0] + told[1]
        return f"{name}({_listed(dims)})", f"{name}({_listed(tuple(d + 1 if d >= 0 else d for d in dims))})"
    flat = layout is not None and len(layout.sizes) == 2
    if name in ("T", "mT", "mH"):
        return name, "mT" if name != "T" or flat else ""
    if name == "t":
        return "t()", "transpose(1, 2)" if flat else ""
    return name, ""


def _numbers(value: Any) -> tuple[int, ...] | None:
    """The whole numbers of a recorded argument: `"1"`, `"[3, 160, 160]"`."""
    try:
        told = json.loads(value) if isinstance(value, str) and len(value) < 400 else None
    except ValueError:
        return None
    told = [told] if isinstance(told, int) and not isinstance(told, bool) else told
    if not isinstance(told, list) or not all(isinstance(n, int) and abs(n) < 1 << 40 for n in told):
        return None
    return tuple(told)


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(n, int) for n in value)


def _listed(dims: tuple[int, ...]) -> str:
    return ", ".join(map(str, dims))
