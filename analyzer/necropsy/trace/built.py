"""Tensors that were built on the CPU only to be copied to the device at once."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from necropsy.trace.nesting import nearest
from necropsy.trace.profile import Profile
from necropsy.trace.rank import Mask, Rows

# Operators that make a tensor out of numbers; `lift_fresh` is what `torch.tensor` leaves. `aten::empty` alone makes
# nothing that is worth copying.
FACTORIES: Final = (
    "aten::zeros", "aten::ones", "aten::full", "aten::rand", "aten::randn", "aten::randint", "aten::randperm",
    "aten::arange", "aten::eye", "aten::linspace", "aten::logspace", "aten::tril_indices", "aten::triu_indices",
    "aten::zeros_like", "aten::ones_like", "aten::full_like", "aten::rand_like", "aten::randn_like",
    "aten::randint_like", "aten::normal", "aten::scalar_tensor", "aten::lift_fresh",
)  # fmt: skip
# What fills the made tensor, below the factory; its first input has the tensor's shape.
_FILLS: Final = (
    "aten::fill_", "aten::zero_", "aten::random_", "aten::uniform_", "aten::normal_", "aten::arange", "aten::eye",
    "aten::linspace", "aten::bernoulli_", "aten::exponential_",
)  # fmt: skip


def factories(p: Profile) -> Rows:
    """Rows of the outermost factory operators in the judged steps that launched nothing: they ran on the CPU.

    What a DataLoader makes on the main thread is data, and is not meant.
    """
    r = p.rank
    if "built.factories" not in p.memo:
        made = r.where(r.ops, FACTORIES, exact=True) & p.in_steps(r.ops["start"])
        made &= ~p.activity.loading.holds(r.ops["start"])
        outer = nearest(r.op_nest.parent, made)
        parent = r.op_nest.parent
        above = np.where(parent >= 0, outer[np.maximum(parent, 0)], -1)
        rows = np.flatnonzero(made & (above < 0))
        ops = r.op_of_call[r.op_of_call >= 0] if len(r.calls) else np.empty(0, np.int64)
        busy = np.unique(outer[ops])
        p.memo["built.factories"] = rows[~np.isin(rows, busy)]
    found: Rows = p.memo["built.factories"]
    return found


def built_on_host(p: Profile, op: Rows, frame: Rows, size: Rows) -> Mask:
    """Which copies to the device carry a tensor that the same call of the user's function had just built.

    `op` and `frame` are rows of the copy's operator and of the user's frame around it,
    `size` its bytes. The tensors must have equally many elements; where shapes were not
    recorded, nothing is claimed.
    """
    found = np.zeros(len(op), np.bool_)
    made = factories(p)
    wanted = np.flatnonzero((op >= 0) & (frame >= 0) & (size > 0))
    if not len(made) or not len(wanted):
        return found
    r = p.rank
    homes, sizes = r.user_frame_of_ops(made), _elements_made(p, made)
    some = (homes >= 0) & (sizes > 1)
    pairs = np.concatenate(
        (np.stack((homes[some], sizes[some])), np.stack((frame[wanted], _elements_of(p, op[wanted])))), axis=1
    )
    _, key = np.unique(pairs, axis=1, return_inverse=True)
    key = key.reshape(-1)
    first = np.full(int(key.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, key[: int(some.sum())], r.ops["start"][made[some]])
    p.memo["built.moved"] = made[some][np.isin(key[: int(some.sum())], key[int(some.sum()) :])]
    found[wanted] = first[key[int(some.sum()) :]] < r.ops["start"][op[wanted]]
    return found


def moved(p: Profile, frame: Rows) -> Rows:
    """Rows of the factories whose tensors the copies in these calls of functions carry."""
    made: Rows = p.memo.get("built.moved", np.empty(0, np.int64))
    return made[np.isin(p.rank.user_frame_of_ops(made), frame[frame >= 0])]


def host_time(p: Profile, made: Rows) -> int:
    """Nanoseconds in which factories ran."""
    return int((p.rank.ops["end"][made] - p.rank.ops["start"][made]).sum())


def names_of(p: Profile, made: Rows) -> list[str]:
    """What the user wrote: `torch.full`, `torch.randn`."""
    written = [n.removeprefix("aten::").replace("lift_fresh", "tensor") for n in p.top_names(p.rank.ops, made)]
    return [f"torch.{n}" for n in written]


def _elements_made(p: Profile, made: Rows) -> Rows:
    """Elements of each made tensor: of the shape that fills it, else of the size asked for; 0 where not told."""
    r = p.rank
    fills = np.flatnonzero(r.where(r.ops, _FILLS, exact=True))
    chosen = np.zeros(len(r.ops), np.bool_)
    chosen[made] = True
    inside = nearest(r.op_nest.parent, chosen)[fills]
    filled = np.arange(len(r.ops))
    filled[inside[inside >= 0]] = fills[inside >= 0]
    found = _elements_of(p, filled[made])
    values = r.ops["values"][made]
    asked = {int(v): _asked(p.trace.text(int(v))) for v in np.unique(values)}
    return np.where(found > 0, found, np.array([asked[int(v)] for v in values], np.int64))


def _elements_of(p: Profile, ops: Rows) -> Rows:
    """Elements of the first input of each operator; 0 where shapes were not recorded."""
    dims = p.rank.ops["dims"][ops]
    table = {int(d): _product(p.trace.text(int(d))) for d in np.unique(dims)}
    return np.array([table[int(d)] for d in dims], np.int64)


def _product(dims: Any) -> int:
    first = dims[0] if isinstance(dims, list) and dims else None
    return _count(first) if first else 0


def _asked(values: Any) -> int:
    """Elements of the size among a factory's arguments: `["0", "50257", "[4, 640]", "4", ...]`."""
    if not isinstance(values, list):
        return 0
    for value in values:
        if isinstance(value, str) and value.startswith("["):
            try:
                return _count(json.loads(value))
            except ValueError:
                return 0
    return 0


def _count(sizes: Any) -> int:
    if not isinstance(sizes, list) or not sizes or not all(isinstance(s, int) and 0 <= s < 1 << 40 for s in sizes):
        return 0
    count = 1
    for s in sizes:
        count *= s
    return count if count < 1 << 60 else 0
