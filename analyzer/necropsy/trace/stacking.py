"""Batches that are stacked from views: which view leaves each sample out of order, and how long stacking takes."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from msgspec import Struct

from necropsy.finding import Place
from necropsy.trace.activity import LOADING
from necropsy.trace.intervals import Cover
from necropsy.trace.loading import callers, loops, waits
from necropsy.trace.nesting import NONE
from necropsy.trace.partition import covers_of
from necropsy.trace.profile import Profile, Site
from necropsy.trace.rank import Mask, RankTrace, Rows
from necropsy.trace.strides import (
    Layout,
    batch_of,
    bytes_of,
    elements,
    in_order,
    inside,
    joined,
    layout_of,
    of_batch,
)

LEAST: Final = 2.0  # views a batch, from which samples are what is turned
# Bytes a nanosecond from which stacking is as quick as it is of samples in order. One core of a loaded machine (torch
# 2.13) stacked 48 of these at 2 to 8 bytes/ns, and 48 transposed ones at 1.2 to 2.7.
QUICK: Final = 5.0

_COLLATE: Final = (("torch/utils/data/_utils/collate.py", ("default_collate", "collate", "collate_tensor_fn")),)
_STACKS: Final = ("aten::stack", "aten::cat")
_VIEWS: Final = {
    "aten::transpose": "transpose", "aten::permute": "permute", "aten::t": "t", "aten::movedim": "movedim",
    "aten::moveaxis": "moveaxis", "aten::swapaxes": "swapaxes", "aten::swapdims": "swapdims", "aten::numpy_T": "T",
    "aten::mT": "mT", "aten::mH": "mH", "aten::adjoint": "adjoint", "aten::transpose_": "transpose_", "aten::t_": "t_",
}  # fmt: skip
# Operators that leave the order of elements as it is: element-wise ones (their result takes its input's order,
# at::TensorIterator), views, and those whose result is small. Any other makes a tensor in an order of its own.
_KEEPS: Final = frozenset(
    f"aten::{n}"
    for n in """
    to _to_copy type_as float double half add sub rsub mul div true_divide neg abs sqrt rsqrt pow exp log log1p log10
    log2 clamp clamp_min clamp_max clip sigmoid tanh relu floor ceil round maximum minimum where lerp
    as_strided select slice narrow unsqueeze squeeze expand alias detach view view_as split chunk unbind flatten
    lift_fresh resolve_conj resolve_neg item _local_scalar_dense is_nonzero mean sum std var std_mean var_mean max min
    amax amin aminmax norm linalg_vector_norm any all isnan isfinite isinf eq ne lt le gt ge
    """.split()
)
_REPLACES: Final = ("aten::copy_", "aten::set_", "aten::resize_", "aten::resize_as_")
_PARTS: Final = frozenset({"aten::narrow", "aten::slice", "aten::copy_"})
_CUT: Final = 16  # a sample may be cut behind its view to this part of its elements, or be put together of as many
_SMALL: Final = 64  # an operator on less than this part of a sample's elements is about something else: a label, a box
_NUMPY: Final = ("<built-in method numpy", "<method 'numpy'", "<built-in method from_numpy", "<built-in function numpy")


class Scattered(Struct, frozen=True):
    """Batches stacked of turned samples.

    `ns` of stacking in the judged steps while the device ran nothing; `views` of `batches`; `view` and `batch` as
    Python spells them of a sample and of a batch ("" where not recorded); `layout` of a sample as it was stacked;
    `rate` in bytes a nanosecond (0: not recorded); `seen`: the stack's own record says that samples are turned.
    """

    place: Place
    ns: int
    batches: int
    views: int
    view: str
    batch: str
    layout: Layout | None
    rate: float
    seen: bool


def collating(p: Profile) -> float:
    """Part of the waits in which the main thread puts samples together, in torch's collate or else what stacks them."""
    r, cover = p.rank, waits(p)
    rows = p.activity.frames_of(_COLLATE) & (r.frames["thread"] == r.main_thread)
    within = Cover.of(r.frames["start"][rows], r.frames["end"][rows])
    if not rows.any() and len(r.ops):
        top = _top(p)
        stacks = _collates(
            p, top & r.where(r.ops, _STACKS, exact=True), top & r.where(r.ops, tuple(_VIEWS), exact=True)
        )
        within = Cover.of(r.ops["start"][stacks], r.ops["end"][stacks])
    return within.overlap(cover).total / cover.total if cover.total else 0.0


def scattered(p: Profile) -> Scattered | None:
    """What is stacked of turned samples; None where nothing is, or something between may put them in order."""
    if "scattered" not in p.memo:
        p.memo["scattered"] = _scattered(p) if len(p.rank.ops) and len(p.rank.frames) else None
    found: Scattered | None = p.memo["scattered"]
    return found


def _scattered(p: Profile) -> Scattered | None:
    r, cover, top = p.rank, waits(p), _top(p)
    turned = top & r.where(r.ops, tuple(_VIEWS), exact=True)
    stacks = _collates(p, top & r.where(r.ops, _STACKS, exact=True), turned)
    wait = np.searchsorted(cover.starts, r.ops["start"], "right") - 1
    stacks = _longest(r, stacks, wait)
    last, stacks = _last_before(np.flatnonzero(turned), stacks, wait, r.ops["start"])
    if not len(last):
        return None
    turned &= np.isin(wait, wait[stacks])
    site = _site(p, turned, last)
    if site is None or site.place is None or site.count < LEAST * len(stacks):
        return None
    last, stacks = last[np.isin(last, site.rows)], stacks[np.isin(last, site.rows)]
    layout = layout_of(r, int(last[-1]))
    told = [_seen(r, int(s), layout) for s in stacks]
    seen = any(told)
    if 2 * told.count(False) >= len(told) or (not seen and _rewritten(p, last, stacks, layout)):
        return None
    stacks = stacks[[t is not False for t in told]]
    views = site.count * len(stacks) // len(told)
    length = (r.ops["end"] - r.ops["start"])[stacks]
    rate = bytes_of(r, int(last[-1]), layout) * views / max(1, int(length.sum()))
    if rate >= QUICK:
        return None
    idle = covers_of(r, p.activity)["data loading"].overlap(Cover.of(r.ops["start"][stacks], r.ops["end"][stacks]))
    ns = int(idle.within(p.steps.start, p.steps.end).sum())
    written = _VIEWS[r.named(r.ops, int(last[-1]))]
    view, batch = of_batch(r, int(last[-1]), written, layout)
    return Scattered(site.place, ns, len(stacks), views, view, batch, layout, rate, seen)


def _top(p: Profile) -> Mask:
    """Operators that Python called in a wait, on the main thread."""
    r = p.rank
    parent = r.op_nest.parent
    ranges = r.where(r.ops, LOADING)  # until torch 1.8 the wait was an operator itself
    called: Mask = (parent < 0) | ranges[np.maximum(parent, 0)]
    mine: Mask = called & ~ranges & (r.ops["thread"] == r.main_thread)
    return mine & waits(p).holds(r.ops["start"])


def _collates(p: Profile, stacks: Mask, views: Mask) -> Rows:
    """Those that make batches: called by torch, or by a function of the user's that turns no sample, as `collate_fn`.

    A line's mark does not tell the function, so that of a trace without frames only torch's are known.
    """
    r, rows = p.rank, np.flatnonzero(stacks)
    cover, start, end = waits(p), r.frames["start"], r.frames["end"]
    if not len(rows) or not len(r.frames):
        return rows
    begin = cover.starts[np.searchsorted(cover.starts, r.ops["start"][rows], "right") - 1]
    middle = (r.ops["start"][rows] + r.ops["end"][rows]) // 2  # a mark before it may end as it begins
    frame = r.frame_at(r.ops["thread"][rows], middle)
    frame = np.where(frame >= 0, r.user_frame[np.maximum(frame, 0)], NONE)
    caller = callers(p)
    while True:  # up to the outermost of the user's below the loader
        above = np.where(frame >= 0, caller[np.maximum(frame, 0)], NONE)
        further = (above >= 0) & (start[np.maximum(above, 0)] >= begin)
        if not further.any():
            break
        frame = np.where(further, above, frame)
    own = (frame >= 0) & (start[np.maximum(frame, 0)] >= begin)
    turned = np.sort(r.ops["start"][views])
    held = np.searchsorted(turned, end[np.maximum(frame, 0)]) - np.searchsorted(turned, start[np.maximum(frame, 0)])
    marks = np.array([n for n, name in r.frame_names.items() if name.mark], np.int64)
    marked = np.isin(r.frames["name"][np.maximum(frame, 0)], marks)
    kept: Mask = ~own | (~marked & (held == 0))
    return rows[kept]


def _longest(r: RankTrace, stacks: Rows, wait: Rows) -> Rows:
    """The longest of each wait: samples have labels, too."""
    order = np.lexsort(((r.ops["start"] - r.ops["end"])[stacks], wait[stacks]))
    _, first = np.unique(wait[stacks][order], return_index=True)
    return stacks[order][first]


def _last_before(views: Rows, stacks: Rows, wait: Rows, start: Rows) -> tuple[Rows, Rows]:
    """(the last view before each stack in its wait, the stack); operators are in order of their start."""
    at = np.searchsorted(start[views], start[stacks]) - 1
    view = views[np.maximum(at, 0)] if len(views) else np.full(len(stacks), NONE)
    some = (at >= 0) & (wait[view] == wait[stacks]) if len(views) else np.zeros(len(stacks), np.bool_)
    return view[some], stacks[some]


def _site(p: Profile, views: Mask, last: Rows) -> Site | None:
    """The user's function, or line, with most of the last views; the loop over the loader is none."""
    loop = {s.place for s in loops(p)}
    sites = [s for s in p.op_sites(views) if s.place is not None and s.place not in loop]
    counts = [int(np.isin(last, s.rows).sum()) for s in sites]
    most = int(np.argmax(counts)) if counts else 0
    return sites[most] if counts and 2 * counts[most] > len(last) else None


def _seen(r: RankTrace, stack: int, layout: Layout | None) -> bool | None:
    """Whether the record of a stack says that its samples lie as the view left them; None where it does not tell.

    What `aten::cat` is given in order it copies in one go, and else part by part (`aten::narrow`), as all of much.
    """
    tensors = joined(r, stack)
    if tensors:
        turned = [
            t for t in tensors if not in_order(_as_joined(r, t, stack)) and (not layout or layout.order == t.order)
        ]
        return 2 * len(turned) > len(tensors)
    names = {r.named(r.ops, n) for n in inside(r, stack)}
    if not names & _PARTS or (layout is not None and in_order(_as_joined(r, layout, stack))):
        return False
    sample = batch_of(r, stack)[1:]
    if layout is not None and sample and (
        len(sample) != len(layout.sizes) or math.prod(sample) * _CUT < layout.elements
        or layout.elements * _CUT < math.prod(sample)
    ):  # fmt: skip
        return False  # what was turned is something else: boxes, a mask
    return None


def _as_joined(r: RankTrace, layout: Layout, stack: int) -> Layout:
    """A sample as `aten::cat` got it: an earlier `torch.stack` gives each a first dimension of its own."""
    if not any(r.named(r.ops, n) == "aten::unsqueeze" for n in inside(r, stack)):
        return layout
    return Layout((1, *layout.sizes), (layout.elements, *layout.strides))


def _rewritten(p: Profile, last: Rows, stacks: Rows, layout: Layout | None) -> bool:
    """Whether most of the last samples of batches may have been put in order between their view and the stacking."""
    r = p.rank
    top = np.flatnonzero(_top(p))
    numpy = np.sort(r.frames["start"][r.where(r.frames, _NUMPY) & (r.frames["thread"] == r.main_thread)])
    found = 0
    for view, stack in zip(last.tolist(), stacks.tolist(), strict=True):
        begin, end = int(r.ops["end"][view]), int(r.ops["start"][stack])
        low, high = np.searchsorted(r.ops["start"][top], (begin, end))
        between = any(_rewrites(r, int(row), layout) for row in top[low:high])
        left = np.searchsorted(numpy, end) > np.searchsorted(numpy, begin)
        found += bool(between or left)
    return 2 * found >= len(last)


def _rewrites(r: RankTrace, row: int, layout: Layout | None) -> bool:
    """Whether an operator may make the sample anew in another order."""
    name = r.named(r.ops, row)
    if name in _KEEPS or name.startswith(("aten::empty", "aten::is_")):
        return False
    if name.endswith("_") and name not in _REPLACES:
        return False  # in place
    inputs = elements(r, row)
    if layout is None or inputs is None or name in _STACKS:
        return True
    return any(n * _SMALL >= layout.elements for n in inputs)
