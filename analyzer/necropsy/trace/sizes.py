"""Steps whose work has other sizes than that of the usual ones: their lengths cannot be compared.

Requests of several lengths, the last batch of an epoch, buckets of sequences. The first
step of a size also pays for what libraries do once a size: cuDNN builds its plans (some
50 ms for an attention), kernels are chosen or compiled.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from necropsy.trace.profile import Profile
from necropsy.trace.rank import Mask, Rows

# Evaluation and logging add operators to those of a usual step; another size changes those that are there.
SAME: Final = 0.1  # part by which the number of operators may differ from the usual one
OTHER: Final = 0.1  # part of a step's operators from which it is one of other sizes


class Sizes(Struct, frozen=True):
    """Which judged steps do the work of a usual step in other sizes, and which of them are the first of their sizes."""

    other: Mask
    first: Mask


def sizes_of(p: Profile, slow: Mask) -> Sizes:
    """`slow` steps are not the usual ones."""
    n = len(p.steps)
    step, key = _work(p)
    if not len(step):
        return Sizes(np.zeros(n, np.bool_), np.zeros(n, np.bool_))
    _, key = np.unique(key, return_inverse=True)
    pairs = np.unique(np.stack((step, key), axis=1), axis=0)
    usual = ~slow
    within = np.bincount(pairs[usual[pairs[:, 0]], 1], minlength=int(key.max()) + 1)  # usual steps that have each key
    common = within * 2 > int(usual.sum())
    begun = np.full(len(common), n, np.int64)
    np.minimum.at(begun, key, step)
    rows = np.maximum(np.bincount(step, minlength=n), 1)
    like = np.abs(rows - np.median(rows[usual])) <= SAME * np.median(rows[usual])
    uncommon = np.bincount(step, weights=~common[key], minlength=n) / rows
    unseen = np.bincount(step, weights=begun[key] == step, minlength=n) / rows
    first = like & (unseen >= OTHER)
    # What came before the first annotated step is not in the trace, but a schedule's warm-up is what it is for.
    first[0] &= p.steps.how != "annotation"
    return Sizes(first | (like & (uncommon >= OTHER)), first)


def _work(p: Profile) -> tuple[Rows, Rows]:
    """(step, what) of each operator on the main thread with its shapes, else of each kernel with its grid."""
    r = p.rank
    ops = r.ops
    if len(ops) and (ops["dims"] > 0).any():
        mine = (ops["dims"] > 0) & (ops["thread"] == r.main_thread)
        step = p.steps.of(ops["start"])
        key = ops["name"].astype(np.int64) << 32 | ops["dims"]
    else:
        kernels = r.kernels
        call = r.launch_of(kernels)
        mine = call >= 0
        start = r.calls["start"][np.maximum(call, 0)] if len(r.calls) else np.zeros(len(kernels), np.int64)
        step = p.steps.of(start)
        key = kernels["name"].astype(np.int64) << 32 | kernels["grid"]
    mine = mine & (step >= 0)
    return step[mine], key[mine]
