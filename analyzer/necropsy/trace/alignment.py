"""Half-precision products whose operands do not lie on 16-byte boundaries."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from msgspec import Struct

from necropsy.trace.lag import sample_of
from necropsy.trace.nesting import NONE
from necropsy.trace.profile import Profile, Site
from necropsy.trace.rank import Rows

# Product -> place of its two factors among its inputs.
_PRODUCTS: Final = {
    "aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1, "aten::_addmm_activation": 1,
}  # fmt: skip
_HALF: Final = {"c10::BFloat16": "bfloat16", "c10::Half": "float16"}
MULTIPLE: Final = 8  # elements of 2 bytes in the 16 bytes that Tensor Cores' loads want
_ALIGNED: Final = ("align8", "nvjet", "align16")  # kernels that only take aligned operands
_UNALIGNED: Final = ("align1", "align2", "align4")


class Product(Struct, frozen=True):
    """A product's shapes: the first factor is [m, k], the second [k, n]; `odd` are sizes that are no multiple of 8."""

    dtype: str
    m: int
    k: int
    n: int
    odd: tuple[int, ...]


class OddSite(Struct, frozen=True):
    """Misaligned products of one function: the site (rows of operators, ns of judged steps) and what they are."""

    site: Site
    products: list[Product]
    kernels: list[str]
    names: list[str]  # of the kernels, in full
    steps: int  # in how many judged steps they were submitted or ran

    @property
    def sizes(self) -> list[int]:
        """The odd sizes, that of most products first."""
        all_ = [s for p in self.products for s in p.odd]
        return sorted(set(all_), key=lambda s: -all_.count(s))


def odd_sites(p: Profile) -> list[OddSite]:
    """Functions with misaligned half-precision products, by time of their kernels."""
    r, sample = p.rank, sample_of(p)
    op = r.op_of(r.kernels)
    known = _products(p)
    odd = np.array([n for n, product in known.items() if product.odd], np.int64)
    if not len(odd):
        return []
    group = _groups(p)
    found = np.where(op >= 0, np.isin(group[np.maximum(op, 0)], odd), False)
    found &= sample.kernels & ~r.matching(r.kernels, _ALIGNED)
    kernels = np.flatnonzero(found)
    ns = np.round((r.kernels["end"] - r.kernels["start"])[kernels] * sample.factor).astype(np.int64)
    sites = []
    for found_in in p.sites(r.user_frame_of_ops(op[kernels]), kernels, ns, r.times_of_ops(op[kernels])):
        s = found_in.blameless()
        groups = np.unique(group[op[s.rows]])
        names = p.top_names(r.kernels, s.rows)
        sites.append(OddSite(s, [known[int(g)] for g in groups], [_short(n) for n in names], names, _steps(p, s.rows)))
    return sites


def _steps(p: Profile, kernels: Rows) -> int:
    r = p.rank
    call = r.launch_of(r.kernels.take(kernels))
    begun = np.where(call >= 0, r.calls["start"][call], r.kernels["start"][kernels]) if len(r.calls) else (
        r.kernels["start"][kernels]
    )  # fmt: skip
    steps = [np.unique(p.steps.of(t)) for t in (begun, r.kernels["start"][kernels])]
    return max(int((s >= 0).sum()) for s in steps)


def confirmed(site: OddSite) -> bool:
    """Whether the kernels' names say that they are those for unaligned operands."""
    return any(word in name for name in site.kernels for word in _UNALIGNED)


def next_multiple(size: int, of: int = MULTIPLE) -> int:
    """The next multiple: 50257 -> 50264, or 50304 of 64."""
    return -(-size // of) * of


def _groups(p: Profile) -> Rows:
    """For each operator a number that stands for its name, shapes, types and strides; -1 for what is no product."""
    r = p.rank
    if "alignment.groups" not in p.memo:
        rows = np.flatnonzero(r.where(r.ops, tuple(_PRODUCTS), exact=True))
        keys = np.stack([r.ops[c][rows].astype(np.int64) for c in ("name", "dims", "types", "strides")])
        _, first, mine = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        group = np.full(len(r.ops), NONE, np.int64)
        group[rows] = mine.reshape(-1)
        p.memo["alignment.groups"] = (rows[first], group)
    found: Rows = p.memo["alignment.groups"][1]
    return found


def _products(p: Profile) -> dict[int, Product]:
    """Group of operators -> the half-precision product that they are."""
    r = p.rank
    _groups(p)
    found = {}
    for group, row in enumerate(p.memo["alignment.groups"][0].tolist()):
        at = _PRODUCTS.get(r.named(r.ops, row))
        if at is not None:
            texts = [r.trace.text(int(r.ops[c][row])) for c in ("dims", "types", "strides")]
            product = _product(at, *texts)
            if product is not None:
                found[group] = product
    return found


def _product(at: int, dims: Any, types: Any, strides: Any) -> Product | None:
    """What the arguments say; None for other types, vectors and what is not told."""
    try:
        left, right, kinds = dims[at], dims[at + 1], {types[at], types[at + 1]}
        steps = (strides[at], strides[at + 1]) if strides else None
        (m, k), n = left[-2:], right[-1]
        if len(kinds) != 1 or right[-2] != k:
            return None
        dtype = _HALF.get(kinds.pop())
        if dtype is None or min(m, k, n) <= 1:
            return None
        if steps is None:
            odd = [s for s in (k, n) if s % MULTIPLE]
            return Product(dtype, m, k, n, tuple(odd))
        # The result is written by rows of n; a factor is read by its contiguous dimension.
        pitches = [n, _pitch(left[-2:], steps[0][-2:]), _pitch(right[-2:], steps[1][-2:])]
        odd = [s for s in pitches if s is not None and s % MULTIPLE]
        return Product(dtype, m, k, n, tuple(dict.fromkeys(odd)))
    except (TypeError, IndexError, KeyError, ValueError, AttributeError):
        return None


def _pitch(size: list[int], step: list[int]) -> int | None:
    """Elements from one row (or column) to the next, of the contiguous dimension; None where there is none."""
    if step[1] == 1 and size[0] > 1:
        return step[0]
    if step[0] == 1 and size[1] > 1:
        return step[1]
    return None


def _short(kernel: str) -> str:
    """A kernel's name without its arguments; of cutlass's the one that its template is given."""
    inner = kernel.partition("Kernel2<")[2] or kernel
    return inner.removeprefix("void ").split("(")[0].split(">")[0]
