"""Kernels that change the order of data and compute nothing: around convolutions, and of the user's own making."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

import numpy as np
from msgspec import Struct

from necropsy.trace.lag import sample_of
from necropsy.trace.nesting import nearest
from necropsy.trace.profile import Profile, Site
from necropsy.trace.rank import Mask, Rows

_CONVOLUTIONS: Final = (
    "aten::conv", "aten::_conv", "aten::cudnn_conv", "aten::miopen_conv", "aten::thnn_conv", "aten::slow_conv",
    "aten::mkldnn_conv",
)  # fmt: skip
# cuDNN (nchwToNhwcKernel, nhwcToFoldedNhwcKernel), MIOpen (batched_transpose_*, transpose_NCHW2CNHW).
_NAMED: Final = re.compile(
    r"nchw_?(?:to|2)_?(?:c|folded)?n?hwc|nhwc_?(?:to|2)_?(?:folded)?n[ch]|nchw2cnhw|cnhw2nchw|batched_transpose", re.I
)
_TRANSPOSES: Final = re.compile(r"transpose|permute", re.I)
_COMPUTES: Final = re.compile(r"gemm|conv[^e]|convolve|grad|fprop|winograd", re.I)
# Kernels of convolutions by name, for traces whose kernels have no operator.
_CONVOLVES: Final = re.compile(r"fprop|dgrad|wgrad|convolve|conv2d|conv3d|implicit_gemm|winograd|miopen.*conv", re.I)

_REPACKS: Final = ("aten::contiguous", "aten::reshape", "aten::flatten")
_SIZES: Final = {
    "float": 4, "double": 8, "c10::BFloat16": 2, "c10::Half": 2, "long int": 8, "int": 4, "short int": 2, "char": 1,
    "signed char": 1, "unsigned char": 1, "bool": 1, "long": 8,
}  # fmt: skip


class Conversions(Struct, frozen=True):
    """Layout kernels of convolutions: their rows, their ns and those of all the convolutions' kernels."""

    rows: Mask
    ns: int
    whole: int

    @property
    def share(self) -> float:
        """Part of the convolutions' time."""
        return self.ns / self.whole if self.whole else 0.0


def conversions(p: Profile) -> Conversions:
    """Layout conversions as part of convolutions, in the kernels of the judged steps (see `lag`)."""
    r, k = p.rank, p.rank.kernels
    counted = sample_of(p).kernels
    named = _matching(p, _NAMED)
    convolutions = r.where(r.ops, _CONVOLUTIONS)
    if not named.any() and not convolutions.any():
        return Conversions(named, 0, 0)
    op = r.op_of(k)
    below = _inside(p, op, convolutions)
    moved = _matching(p, _TRANSPOSES) & ~_matching(p, _COMPUTES)
    repacking = _inside(p, op, r.where(r.ops, ("aten::contiguous", "aten::clone"), exact=True))
    rows = counted & (named | (below & (moved | repacking)))
    cast = _inside(p, op, r.where(r.ops, "aten::_to_copy", exact=True))
    whole = counted & ((below & ~cast) | rows | ((op < 0) & _matching(p, _CONVOLVES)))
    length = k["end"] - k["start"]
    return Conversions(rows, int(length[rows].sum()), int(length[whole].sum()))


def repack_sites(p: Profile) -> list[Site]:
    """The user's functions that make tensors contiguous, by time of the judged steps; rows are those of operators.

    An operator that needs contiguous data and makes it so itself (a product, a
    convolution) has the repacking below it; these are not meant.
    """
    r, sample = p.rank, sample_of(p)
    asked = r.where(r.ops, _REPACKS, exact=True)
    if not asked.any():
        return []
    asked &= _outermost(p)
    ops, ns = [], []
    for work in (r.kernels, r.copies):
        counted = sample.kernels if work is r.kernels else p.in_steps(work["start"])
        part = work.take(counted & _inside(p, r.op_of(work), asked)) if len(work) else work
        ops.append(r.op_of(part))
        ns.append(part["end"] - part["start"])
    rows, lengths = np.concatenate(ops), np.concatenate(ns)
    permuted = _permuted(p, rows)
    rows, lengths = rows[permuted], np.round(lengths[permuted] * sample.factor).astype(np.int64)
    return p.sites(r.user_frame_of_ops(rows), rows, lengths, r.times_of_ops(rows)) if len(rows) else []


def _permuted(p: Profile, ops: Rows) -> Mask:
    """Which copying operators read a tensor in another order than it lies; False where strides were not recorded.

    Slices (`logits[:, :-1].flatten()`) and expanded tensors keep their order, and are not meant.
    """
    r = p.rank
    keys = np.stack((r.ops["strides"][ops], r.ops["dims"][ops]))
    pairs, which = np.unique(keys, axis=1, return_inverse=True)
    found = [_reordered(r.trace.text(strides), r.trace.text(dims)) for strides, dims in pairs.T.tolist()]
    return np.array(found, np.bool_)[which.reshape(-1)]


def _reordered(strides: Any, dims: Any) -> bool:
    try:
        which = 1 if isinstance(strides[1], list) and strides[1] else 0  # copy_(to, from), clone(from)
        steps = [s for s, d in zip(strides[which], dims[which], strict=True) if d > 1 and s > 0]
        return any(a < b for a, b in pairwise(steps))
    except (TypeError, IndexError, ValueError):
        return False


def repacked(p: Profile, ops: Rows) -> tuple[int, list[list[int]]]:
    """(bytes, commonest shapes) of what operators repack; 0 and nothing where shapes were not recorded."""
    r = p.rank
    pairs, counts = np.unique(np.stack((r.ops["dims"][ops], r.ops["types"][ops])), axis=1, return_counts=True)
    total, shapes = 0, []
    for (dims, types), count in sorted(zip(pairs.T.tolist(), counts.tolist(), strict=True), key=lambda x: -x[1]):
        shape, item = _first(r.trace.text(dims)), _SIZES.get(str(_first(r.trace.text(types))), 0)
        if isinstance(shape, list) and shape and all(isinstance(d, int) for d in shape):
            total += count * item * int(np.prod(np.array(shape, np.float64)))
            shapes.append(shape)
    return total, shapes[:2]


def channels_last(p: Profile) -> tuple[bool | None, bool | None]:
    """Whether most convolutions' (inputs, weights) are channels-last; None where strides were not recorded."""
    r = p.rank
    rows = np.flatnonzero(r.where(r.ops, "aten::convolution", exact=True) & p.in_steps(r.ops["start"]))
    votes: list[list[int]] = [[0, 0], [0, 0]]
    pairs, counts = np.unique(np.stack((r.ops["dims"][rows], r.ops["strides"][rows])), axis=1, return_counts=True)
    for (dims, strides), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
        sizes, steps = r.trace.text(dims), r.trace.text(strides)
        for which in range(2):
            last = _is_channels_last(sizes, steps, which)
            if last is not None:
                votes[which][last] += count
    found = [yes > no if yes + no else None for no, yes in votes]
    return found[0], found[1]


def _is_channels_last(sizes: Any, steps: Any, which: int) -> bool | None:
    try:
        size, step = sizes[which], steps[which]
        if len(size) != 4 or len(step) != 4 or size[1] < 2 or size[2] * size[3] < 2:
            return None
        return bool(step[1] == 1)
    except (TypeError, IndexError):
        return None


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def _matching(p: Profile, pattern: re.Pattern[str]) -> Mask:
    k = p.rank.kernels
    if not len(k):
        return np.zeros(0, np.bool_)
    names = np.unique(k["name"])
    wanted = np.zeros(len(p.trace.names), np.bool_)
    wanted[[n for n in names.tolist() if pattern.search(p.trace.names[n])]] = True
    return np.asarray(wanted[k["name"]])


def _outermost(p: Profile) -> Mask:
    """Operators with no operator of `aten` around them, and none of the engine's: what the user's code called."""
    r = p.rank
    counted = r.where(r.ops, ("aten::", "autograd::"))
    parent = r.op_nest.parent
    around = nearest(parent, counted)
    above = np.where(parent >= 0, around[np.maximum(parent, 0)] if len(r.ops) else -1, -1)
    flat = np.where(above >= 0, r.where(r.ops, "aten::flatten", exact=True)[np.maximum(above, 0)], False)
    return np.asarray((above < 0) | flat)


def _inside(p: Profile, op: Rows, wanted: Mask) -> Mask:
    """Which operators (by row, -1 for none) are, or lie below, wanted ones."""
    if not wanted.any():
        return np.zeros(len(op), np.bool_)
    below = nearest(p.rank.op_nest.parent, wanted) >= 0
    return np.asarray(np.where(op >= 0, below[np.maximum(op, 0)], False))
