"""Steps of optimizers: how many kernels they launch, one parameter at a time or many, and what they cost."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy.trace.intervals import Cover
from necropsy.trace.opwork import opwork_of
from necropsy.trace.profile import Profile, Site

Rows = NDArray[np.int64]

STEP: Final = "Optimizer.step"
KERNELS: Final = 50  # a step, of a loop over parameters
SINGLE: Final = 0.8  # part of them that handle one tensor
# Optimizers of torch that have a multi-tensor version (torch 2.0 to 2.13); LBFGS, SparseAdam and Muon have none.
MULTI_TENSOR: Final = (
    "Adam", "AdamW", "SGD", "NAdam", "RAdam", "Adagrad", "Adadelta", "Adamax", "ASGD", "RMSprop", "Rprop", "Adafactor",
)  # fmt: skip
FUSED: Final = ("Adam", "AdamW", "SGD", "Adagrad")  # torch 2.4
_MANY: Final = ("_foreach_", "_fused_", "multi_tensor", "_amp_")


class OneByOne(Struct, frozen=True):
    """Optimizers' steps that update one parameter at a time.

    `names` of the classes; `kernels` in all judged steps, `ns` of them, `idle` ns of the device
    while the host was in these steps; `sites`: the callers; `own`: the class is not torch's.
    """

    names: tuple[str, ...]
    kernels: int
    ns: int
    idle: int
    steps: int
    sites: list[Site]
    own: bool


def one_by_one(p: Profile, *, kernels: int, single: float) -> OneByOne | None:
    """The steps of optimizers with at least so many kernels a judged step, of which that part handles one tensor."""
    r, w = p.rank, opwork_of(p)
    columns = r.annotations
    rows = np.flatnonzero(r.where(columns, STEP) & p.in_steps(columns["start"]))
    if not len(rows) or not len(w.op):
        return None
    cover = Cover.of(columns["start"][rows], columns["end"][rows])
    known = np.maximum(w.op, 0)
    inside = (w.op >= 0) & cover.holds(r.ops["start"][known]) & ~w.compiled[known]
    inside &= np.isin(r.ops["thread"][known], np.unique(columns["thread"][rows]))
    many = w.op_named(lambda n: any(k in n for k in _MANY) or not n.startswith("aten::"))
    count, alone = int(inside.sum()), int((inside & ~many).sum())
    if count < kernels * len(p.steps) or alone < single * count:
        return None
    frame = r.frame_at(columns["thread"][rows], columns["start"][rows])
    user = np.where(frame >= 0, r.user_frame[np.maximum(frame, 0)], -1) if len(r.frames) else np.full(len(rows), -1)
    steps = len(np.unique(p.steps.of(columns["start"][rows])))
    names = sorted({_class(r.named(columns, int(row))) for row in rows})
    return OneByOne(
        tuple(names), count, int(w.ns[inside].sum()), _idle(p, cover), steps,
        p.sites(user, rows, columns["end"][rows] - columns["start"][rows], columns["start"][rows]),
        any(n not in MULTI_TENSOR for n in names),
    )  # fmt: skip


def claimed(p: Profile) -> Cover:
    """The ranges of steps that update one parameter at a time: their idle time is theirs, and no other finding's."""
    if one_by_one(p, kernels=KERNELS, single=SINGLE) is None:
        return Cover.empty()
    columns = p.rank.annotations
    rows = p.rank.where(columns, STEP)
    return Cover.of(columns["start"][rows], columns["end"][rows])


def _class(annotation: str) -> str:
    """`AdamW` of `Optimizer.step#AdamW.step`."""
    return annotation.partition("#")[2].partition(".")[0]


def _idle(p: Profile, cover: Cover) -> int:
    """Nanoseconds in which the device ran nothing and the host was in these ranges, but not compiling or allocating."""
    else_ = p.activity.compiling.union(p.activity.allocating, p.activity.loading)
    steps = Cover.of(p.steps.start, p.steps.end)
    return cover.overlap(steps).minus(p.rank.busy).minus(else_).total
