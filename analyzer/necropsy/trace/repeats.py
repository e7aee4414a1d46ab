"""Loops of the user's that call the same small operator again and again.

Only operators that a user's function calls itself count: what `nn.Module`s, optimizers and
the backward pass launch is one call in the user's code, and no loop.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from necropsy.finding import Place
from necropsy.trace.idle import gaps_of
from necropsy.trace.intervals import Cover
from necropsy.trace.nesting import NONE, nearest
from necropsy.trace.profile import Profile
from necropsy.trace.rank import Mask, Rows

SHORT: Final = 10_000  # ns: kernels that take less on average are too short for the device (TraceLens, nsys-ai)
AGAIN: Final = 20  # calls of one operator by one call of a function in a step: a loop, not a few layers
LAUNCHES: Final = 50  # short kernels of a function a step
SELECTS: Final = 10  # equal `aten::select` (TorchTidy's pattern matcher)

SELECT: Final = ("aten::select",)
# Operators that exist for lists of tensors, too (`torch._foreach_...`), or act element by element.
ELEMENTWISE: Final = tuple(
    f"aten::{n}{u}"
    for n in (
        "add", "sub", "mul", "div", "lerp", "copy", "zero", "fill", "clamp", "addcmul", "addcdiv", "sqrt", "rsqrt",
        "exp", "log", "tanh", "sigmoid", "relu", "pow", "neg", "abs", "norm", "linalg_vector_norm", "sum",
        "mean", "where", "maximum", "minimum", "sign", "square", "reciprocal", "to", "clone", "eq", "gt", "lt", "ge",
        "le", "rsub",
    )
    for u in ("", "_")
)  # fmt: skip


class Loop(Struct, frozen=True):
    """Kernels of a loop: rows, their mean ns, the operators by name, and the idle time in front of them."""

    place: Place | None
    kernels: Rows
    ops: tuple[str, ...]
    often: int  # calls of the operators in all judged steps
    steps: int
    device: int
    idle: int
    calls: Rows

    @property
    def mean(self) -> float:
        """Nanoseconds of a kernel."""
        return self.device / max(1, len(self.kernels))


def small_kernels(p: Profile) -> list[Loop]:
    """Functions that launch many short kernels from a loop over the same element-wise operators."""
    if "small kernels" not in p.memo:
        found = [f for f in _loops(p, ELEMENTWISE, AGAIN) if f.mean < SHORT]
        told = {f.place for f in indexing(p)}
        p.memo["small kernels"] = [f for f in found if len(f.kernels) >= LAUNCHES * f.steps and f.place not in told]
    loops: list[Loop] = p.memo["small kernels"]
    return loops


def indexing(p: Profile) -> list[Loop]:
    """Functions that take a tensor apart in a Python loop, and launch work for each part."""
    if "indexing" not in p.memo:
        found = _loops(p, SELECT, SELECTS)
        # Without work on the device for at least every other element it is a tensor of the host.
        p.memo["indexing"] = [f for f in found if len(f.kernels) * 2 >= f.often and f.mean < SHORT]
    loops: list[Loop] = p.memo["indexing"]
    return loops


def claimed_calls(p: Profile) -> Mask:
    """Rows of calls whose gaps these loops own."""
    claimed = np.zeros(len(p.rank.calls), np.bool_)
    for loop in (*small_kernels(p), *indexing(p)):
        claimed[loop.calls] = True
    return claimed


def _direct(p: Profile) -> tuple[Rows, Rows]:
    """(operators that a user's function calls itself in judged steps, the frames that call them)."""
    if "direct" in p.memo:
        found: tuple[Rows, Rows] = p.memo["direct"]
        return found
    r = p.rank
    top = np.flatnonzero((r.op_nest.parent < 0) & p.in_steps(r.ops["start"]))
    top = top[r.where(r.ops, "aten::")[top]]
    frame = r.frame_at(r.ops["thread"][top], r.ops["start"][top])
    builtins = np.array([n for n, f in r.frame_names.items() if f.kind == "builtin"], np.int64)
    caller = nearest(r.frame_nest.parent, ~np.isin(r.frames["name"], builtins))
    caller = np.where(frame >= 0, caller[np.maximum(frame, 0)], NONE)
    users = (caller >= 0) & (r.user_frame[np.maximum(caller, 0)] == caller)
    users &= ~(p.activity.loading.holds(r.ops["start"][top]) | p.activity.compiling.holds(r.ops["start"][top]))
    p.memo["direct"] = (top[users], caller[users])
    return top[users], caller[users]


def _loops(p: Profile, names: tuple[str, ...], least: int) -> list[Loop]:
    r = p.rank
    if not len(r.frames) or not len(r.ops) or not len(r.kernels):
        return []
    ops, frames = _direct(p)
    kept = r.where(r.ops, names, exact=True)[ops]
    ops, frames = ops[kept], frames[kept]
    if not len(ops):
        return []
    # One loop: the same operator, with inputs of the same shape where shapes tell, in one call of a function.
    shape = r.ops["dims"][ops] if names is SELECT else np.zeros(len(ops), np.int64)
    key = np.stack((frames, p.steps.of(r.ops["start"][ops]), r.ops["name"][ops], shape), axis=1)
    _, inverse, counts = np.unique(key, axis=0, return_inverse=True, return_counts=True)
    again = counts[inverse.ravel()] >= least
    return _by_function(p, ops[again], frames[again], names is SELECT)


def _by_function(p: Profile, ops: Rows, frames: Rows, whole: bool) -> list[Loop]:
    """The loops of each function that has some in most judged steps; `whole`: all kernels from first to last."""
    r = p.rank
    root = r.op_nest.outermost(r.op_of(r.kernels))
    found = []
    for name in np.unique(r.frames["name"][frames]):
        of_name = r.frames["name"][frames] == name
        rows = ops[of_name]
        steps = len(np.unique(p.steps.of(r.ops["start"][rows])))
        if steps * 2 <= len(p.steps):
            continue
        wanted = _between(p, rows, frames[of_name]) if whole else np.isin(np.arange(len(r.ops)), rows)
        kernels = np.flatnonzero((root >= 0) & wanted[np.maximum(root, 0)])
        place = p.placed(frames[of_name], r.ops["start"][rows])
        found.append(_loop(p, place, rows, kernels, steps))
    return sorted(found, key=lambda f: -(f.device + f.idle))


def _between(p: Profile, ops: Rows, frames: Rows) -> Mask:
    """Operators of the loop's thread from the first to the last of these in one call of the function and step."""
    r = p.rank
    start, end = r.ops["start"], r.ops["end"]
    _, group = np.unique(np.stack((frames, p.steps.of(start[ops])), axis=1), axis=0, return_inverse=True)
    group = group.ravel()
    first = np.full(int(group.max()) + 1, 1 << 62, np.int64)
    last = np.zeros(len(first), np.int64)
    np.minimum.at(first, group, start[ops])
    np.maximum.at(last, group, end[ops])
    # The work of the last part comes behind its select: a part's length more.
    count = np.bincount(group)
    last = last + (last - first) // np.maximum(1, count - 1)
    inside: Mask = Cover.of(first, last).holds(start) & (r.ops["thread"] == r.ops["thread"][ops[0]])
    return inside


def _loop(p: Profile, place: Place | None, ops: Rows, kernels: Rows, steps: int) -> Loop:
    r = p.rank
    device = int((r.kernels["end"] - r.kernels["start"])[kernels].sum())
    calls = r.launch_of(r.kernels.take(kernels))
    calls = np.unique(calls[calls >= 0])
    g = gaps_of(p)
    idle = int(g.own[np.isin(g.call, calls)].sum())
    return Loop(place, kernels, tuple(p.top_names(r.ops, ops)), len(ops), steps, device, idle, calls)
