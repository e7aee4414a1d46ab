"""Convolutions whose output goes straight into a BatchNorm, and whether they add a bias before it."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy.trace.fusion import shapes
from necropsy.trace.nesting import nearest
from necropsy.trace.opwork import opwork_of
from necropsy.trace.profile import Profile, Site

Rows = NDArray[np.int64]

_CONVOLUTIONS: Final = ("aten::conv1d", "aten::conv2d", "aten::conv3d")
_NORM: Final = "aten::batch_norm"
_TRAINING: Final = 5  # argument of aten::batch_norm (ATen/native/native_functions.yaml)


class Biased(Struct, frozen=True):
    """Convolutions with a bias before a BatchNorm in training: by caller; ns of adding it and of its gradient."""

    sites: list[Site]
    calls: int
    others: int
    ns: int
    kernels: int
    steps: int


def biased(p: Profile) -> Biased | None:
    """Those of the judged steps, or None."""
    r, ops, w = p.rank, p.rank.ops, opwork_of(p)
    conv = r.where(ops, _CONVOLUTIONS, exact=True) & p.in_steps(ops["start"]) if len(ops) else np.zeros(0, np.bool_)
    norm = r.where(ops, _NORM, exact=True)
    if not conv.any() or not norm.any():
        return None
    # Autocast calls an operator within itself: the outermost counts.
    parent = r.op_nest.parent
    conv &= ~conv[np.maximum(parent, 0)] | (parent < 0)
    norm &= ~norm[np.maximum(parent, 0)] | (parent < 0)
    own = conv | norm
    within = nearest(parent, own) >= 0
    others = (w.op_ns > 0) & ~within & ~w.backward
    rows = np.flatnonzero((own | others) & ~w.compiled)
    rows = rows[np.lexsort((ops["start"][rows], ops["thread"][rows]))]
    followed = conv[rows[:-1]] & norm[rows[1:]] & (ops["thread"][rows[:-1]] == ops["thread"][rows[1:]])
    pairs = [(int(a), int(b)) for a, b in zip(rows[:-1][followed], rows[1:][followed], strict=True)]
    told = {(ops["dims"][a], ops["dims"][b], ops["values"][b]): None for a, b in pairs}
    wanted = {k for k in told if _adds_bias(p, *(int(x) for x in k))}
    found = np.array([a for a, b in pairs if (ops["dims"][a], ops["dims"][b], ops["values"][b]) in wanted], np.int64)
    if not len(found):
        return None
    marked = np.zeros(len(ops), np.bool_)
    marked[found] = True
    owner = w.forward_kernels
    mine = (owner >= 0) & (nearest(parent, marked)[np.maximum(owner, 0)] >= 0)
    # The bias is added by an element-wise kernel, and its gradient is a sum.
    mine &= w.op_named(lambda n: n in ("aten::add_", "aten::sum"))
    length = ops["end"][found] - ops["start"][found]
    sites = p.sites(r.user_frame_of_ops(found), found, length, r.times_of_ops(found))
    return Biased(
        [s.blameless() for s in sites], len(found), len(pairs) - len(found),
        int(w.ns[mine].sum()), int(mine.sum()), len(np.unique(p.steps.of(ops["start"][found]))),
    )  # fmt: skip


def _adds_bias(p: Profile, conv: int, norm: int, values: int) -> bool:
    """Whether a bias is given, the BatchNorm takes what the convolution made, and it is in training."""
    into, after = shapes(p, conv), shapes(p, norm)
    told = p.trace.text(values)
    training = isinstance(told, list) and len(told) > _TRAINING and str(told[_TRAINING]) == "True"
    return (
        training and len(into) > 2 and bool(into[2]) and len(into[0]) > 2 and len(into[1]) > 2
        and bool(after) and len(after[0]) > 2
        and after[0][1] == into[1][0] == into[2][0] and after[0][0] == into[0][0]
    )  # fmt: skip
