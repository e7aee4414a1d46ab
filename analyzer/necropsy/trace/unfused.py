"""What unfused operations cost, by the function that has them, and what fusing would spare."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy.finding import Place
from necropsy.trace.claim import key_of
from necropsy.trace.fusion import Chain, chains, patterns, shapes, spelled
from necropsy.trace.nesting import nearest
from necropsy.trace.opwork import opwork_of
from necropsy.trace.profile import Profile

Rows = NDArray[np.int64]

SHORTEST_CHAIN: Final = 3  # operators (HTA's frequent sequences begin there)
_PRODUCTS: Final = "bg"


class Unfused(Struct, frozen=True):
    """Operations that would be one kernel, of one function.

    `ns` of the kernels that it would replace, those of the backward pass with them; `products`: ns
    of the matrix products of the pattern; `low` and `high`: ns that fusing is estimated to
    spare; `calls` in `steps` judged steps; `kernels` in all; `operators` of one call; `shape`
    the largest; `library` the package's function, where it is none of the user's own;
    `inside` a function of torch's that it is part of.
    """

    name: str
    place: Place | None
    library: str
    inside: str
    ns: int
    products: int
    low: int
    high: int
    calls: int
    steps: int
    kernels: int
    operators: tuple[str, ...]
    shape: tuple[int, ...]

    @property
    def where(self) -> str:
        """The function as an event's name has it."""
        at = key_of(self.place)
        return f"{at}:{self.library}" if self.library else at


def known_patterns(p: Profile) -> list[Unfused]:
    """Known patterns, dearest first."""
    if "patterns" not in p.memo:
        p.memo["patterns"] = patterns(p)
    return _grouped(p, p.memo["patterns"])


def element_wise(p: Profile) -> list[Unfused]:
    """Chains of element-wise operators outside known patterns, dearest first."""
    if "patterns" not in p.memo:
        p.memo["patterns"] = patterns(p)
    return _grouped(p, chains(p, p.memo["patterns"], SHORTEST_CHAIN))


def _grouped(p: Profile, found: list[Chain]) -> list[Unfused]:
    s = spelled(p)
    groups: dict[tuple[str, int, str], list[Chain]] = {}
    inside = _inside(p, np.array([s.rows[c.low] for c in found], np.int64))
    for c, around in zip(found, inside, strict=True):
        groups.setdefault((c.name, int(s.function[c.low]), around), []).append(c)
    return sorted((_made(p, name, around, mine) for (name, _, around), mine in groups.items()), key=lambda u: -u.ns)


class _Costs(Struct, frozen=True):
    """By position in the spelled text: ns of the operator's own kernels and of its backward node's; their number."""

    forward: Rows
    backward: Rows
    kernels: Rows


def _costs(p: Profile) -> _Costs:
    if "unfused costs" not in p.memo:
        w, s = opwork_of(p), spelled(p)
        owner, count = w.forward_kernels, len(p.rank.ops)
        back = (owner >= 0) & (owner != w.op)
        own = (owner >= 0) & ~back
        at = np.maximum(s.rows, 0)
        sums = [np.bincount(owner[m], weights=w.ns[m], minlength=count).astype(np.int64)[at] for m in (own, back)]
        number = np.bincount(owner[own | back], minlength=count)[at]
        p.memo["unfused costs"] = _Costs(*(np.where(s.rows >= 0, v, 0) for v in (*sums, number)))
    made = p.memo["unfused costs"]
    assert isinstance(made, _Costs)
    return made


def _made(p: Profile, name: str, inside: str, mine: list[Chain]) -> Unfused:
    s, c = spelled(p), _costs(p)
    total = products = kernels = low = high = 0
    for chain in mine:
        part = slice(chain.low, chain.high)
        loose = np.array([x not in _PRODUCTS for x in s.text[part]])
        both = c.forward[part] + c.backward[part]
        products += int(both[~loose].sum())
        kernels += int(c.kernels[part][loose].sum())
        total += int(both[loose].sum())
        # One kernel reads and writes at least what the largest of them does: it takes as long as that one, or as two.
        for direction in (c.forward[part][loose], c.backward[part][loose]):
            longest = np.sort(direction)[::-1]
            whole = int(longest.sum())
            high += whole if name == "attention" else whole - int(longest[:1].sum())
            low += whole - int(longest[: 1 if name == "attention" else 2].sum())
    first = mine[0]
    begins = np.array([chain.low for chain in mine], np.int64)
    place, library = _place(p, s.frame[begins], s.rows[begins])
    rows = [int(s.rows[chain.low]) for chain in mine]
    steps = len(np.unique(p.steps.of(p.rank.ops["start"][rows])))
    names = [p.rank.named(p.rank.ops, int(r)).removeprefix("aten::") for r in s.rows[first.low : first.high]]
    largest = max(mine, key=lambda chain: int(s.size[chain.low : chain.high].max()))
    told = [d for i in range(largest.low, largest.high) for d in shapes(p, int(s.dims[i]))]
    shape = max(told, key=_elements, default=[])
    return Unfused(
        name, place, library, inside, total, products, low, high, len(mine), steps, kernels, tuple(names), tuple(shape)
    )


def _elements(shape: list[int]) -> int:
    return int(np.prod(shape)) if shape else 0


def _place(p: Profile, frames: Rows, ops: Rows) -> tuple[Place | None, str]:
    """The user's function, and the package's if the innermost is not the user's; both rest on the first operators."""
    if frames[0] < 0:
        return None, ""
    name = p.rank.frame_names[int(p.rank.frames["name"][frames[0]])]
    if name.kind == "user":
        return p.placed(frames, p.rank.times_of_ops(ops)), ""
    package = name.file.replace("\\", "/").partition("/")[0]
    caller = p.placed(p.rank.user_frame_of_ops(ops[:1]), p.rank.times_of_ops(ops[:1]))
    return caller, f"{name.function} of {package}"


def _inside(p: Profile, rows: Rows) -> list[str]:
    """For each operator, the function of torch's own that it is part of: attention that torch could not fuse."""
    r = p.rank
    if not len(rows):
        return []
    attends = nearest(r.op_nest.parent, r.matching(r.ops, ("scaled_dot_product",)))[rows] >= 0
    heads = np.zeros(len(rows), np.bool_)
    wanted = [n for n, f in r.frame_names.items() if f.function == "multi_head_attention_forward"]
    if wanted:
        table = nearest(r.frame_nest.parent, np.isin(r.frames["name"], np.array(wanted, np.int64)))
        at = r.frame_at(r.ops["thread"][rows], r.ops["start"][rows])
        heads = (at >= 0) & (table[np.maximum(at, 0)] >= 0)
    words = np.where(attends, "scaled_dot_product_attention", np.where(heads, "MultiheadAttention", ""))
    return [str(w) for w in words]
