"""Kernels by name: the one that dominates, and operators whose times vary though their shapes do not."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy.trace.opwork import OpWork, opwork_of
from necropsy.trace.profile import Profile, Site

Rows = NDArray[np.int64]

# Operators whose time follows the values, not the shapes.
_OF_DATA: Final = (
    "sort", "topk", "unique", "nonzero", "index", "scatter", "gather", "embedding", "nms", "masked", "bincount",
    "sparse", "moe", "dropout", "multinomial", "record_param",
)  # fmt: skip


class Dominant(Struct, frozen=True):
    """A kernel's name, its ns and those of all, its operator, its rows, and the functions that launch it."""

    name: str
    ns: int
    total: int
    calls: int
    longest: int
    operator: str
    rows: Rows
    sites: list[Site]


class Varying(Struct, frozen=True):
    """Calls of an operator with one kernel and one shape; ns; `excess` above the median of the slow ones."""

    operator: str
    name: str
    calls: int
    ns: int
    shortest: int
    median: int
    longest: int
    excess: int
    variation: float
    beside: float
    sites: list[Site]


def dominant(p: Profile) -> Dominant | None:
    """The kernel that takes most of the judged steps' computing time; None without one that repeats."""
    w = opwork_of(p)
    if not len(w.rows) or not w.total:
        return None
    names, inverse, counts = np.unique(w.kernels["name"], return_inverse=True, return_counts=True)
    sums = np.bincount(inverse, weights=w.ns)
    top = int(np.argmax(sums))
    if len(names) < 2 or counts[top] < 2:
        return None
    mine = np.flatnonzero(inverse == top)
    ops = w.op[mine]
    operator = ""
    if (ops >= 0).any():
        kinds, each = np.unique(p.rank.ops["name"][ops[ops >= 0]], return_counts=True)
        operator = p.trace.names[int(kinds[np.argmax(each)])]
    return Dominant(
        p.trace.names[int(names[top])], int(sums[top]), w.total, len(mine), int(w.ns[mine].max()), operator,
        w.rows[mine],
        p.work_sites(p.rank.kernels, _mask(len(p.rank.kernels), w.rows[mine])),
    )  # fmt: skip


def varying(p: Profile, *, calls: int, variation: float) -> list[Varying]:
    """Operators with more than so many calls of one kernel, launch and shape whose times vary more than that."""
    w, ops = opwork_of(p), p.rank.ops
    rows = np.flatnonzero(w.op >= 0)
    if not len(rows):
        return []
    op = w.op[rows]
    rows = rows[ops["dims"][op] > 0]
    if not len(rows):
        return []
    op = w.op[rows]
    grid = (w.kernels["grid"][rows], w.kernels["block"][rows], w.kernels["name"][rows])
    keys = np.stack([*(ops[c][op] for c in ("name", "dims", "types", "strides", "values")), *grid], axis=1)
    _, inverse, counts = np.unique(keys.astype(np.int64), axis=0, return_inverse=True, return_counts=True)
    inverse = np.ravel(inverse)
    ns = w.ns[rows].astype(np.float64)
    mean = np.bincount(inverse, weights=ns) / counts
    spread = np.sqrt(np.bincount(inverse, weights=(ns - mean[inverse]) ** 2) / counts)
    found = [
        _varying(p, w, rows[inverse == g], float(spread[g] / mean[g]))
        for g in np.flatnonzero((counts > calls) & (spread > variation * mean))
    ]
    return sorted((v for v in found if v is not None), key=lambda v: -v.ns)


def _varying(p: Profile, w: OpWork, rows: Rows, variation: float) -> Varying | None:
    ops = p.rank.ops
    operator = p.rank.named(ops, int(w.op[rows[0]]))
    types = p.trace.text(int(ops["types"][w.op[rows[0]]]))
    if any(k in operator for k in _OF_DATA) or "TensorList" in str(types):
        return None
    ns = w.ns[rows]
    median = int(np.median(ns))
    slow = ns > 2 * median
    # One slow call is a hiccup, and the first calls of a recording warm up.
    if int(slow.sum()) < 2 or len(np.unique(w.step[rows[slow]])) < min(2, len(p.steps)):
        return None
    start, end = w.kernels["start"][rows], w.kernels["end"][rows]
    beside = p.rank.communicating.within(start[slow], end[slow])
    return Varying(
        operator, p.trace.names[int(w.kernels["name"][rows[0]])], len(rows), int(ns.sum()), int(ns.min()), median,
        int(ns.max()), int((ns[slow] - median).sum()), variation, float(beside.sum() / ns[slow].sum()),
        p.work_sites(p.rank.kernels, _mask(len(p.rank.kernels), w.rows[rows])),
    )  # fmt: skip


def _mask(length: int, rows: Rows) -> NDArray[np.bool_]:
    mask = np.zeros(length, np.bool_)
    mask[rows] = True
    return mask
