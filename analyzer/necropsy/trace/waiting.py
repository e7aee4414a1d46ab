"""Waits of the host for the device: from which calls, of whose code, and the idle time that they leave behind.

While the host waits, it launches nothing, so that the device runs dry and then idles until
the host has launched again. Without the wait the host would have gone on earlier by as long
as it waited: of the gap behind a wait that much, and no more, is the wait's.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy.finding import Place
from necropsy.trace.activity import WAITS
from necropsy.trace.idle import host_idle
from necropsy.trace.intervals import Cover
from necropsy.trace.nesting import NONE, nearest
from necropsy.trace.profile import Profile
from necropsy.trace.rank import Mask, Rows

# A call on the host may seem to return this long before the device's end: two clocks (ns).
SKEW: Final = 10_000

EXPLICIT, ITEM, BRANCH, COPY, SIZE, UPLOAD, OTHER, BARRIER = range(8)  # kinds of waits
WORDS: Final = {
    ITEM: "`.item()` (or `float()`, `int()` of a tensor)",
    BRANCH: "a branch on a tensor (`if tensor:`)",
    COPY: "`.cpu()` (or `.numpy()`, `.tolist()`, `print` of a tensor)",
    SIZE: "an operation whose result's size depends on values (`nonzero`, a boolean mask, `unique`)",
}
SHORT: Final = {ITEM: "`.item()`", BRANCH: "`if tensor:`", COPY: "`.cpu()`", SIZE: "`nonzero` or a boolean mask"}
_OPS: Final = (
    # The first that encloses the wait counts: is_nonzero calls item.
    (BARRIER, ("c10d::barrier",)),
    (SIZE, (
        "aten::nonzero", "aten::masked_select", "aten::unique", "aten::_unique", "aten::_unique2", "aten::unique_dim",
        "aten::unique_consecutive", "aten::bincount", "aten::repeat_interleave", "aten::argwhere", "aten::histc",
        "aten::_pad_packed_sequence", "aten::_assert_async",
    )),
    (BRANCH, ("aten::is_nonzero", "aten::equal", "aten::allclose")),
    (ITEM, ("aten::item", "aten::_local_scalar_dense")),
    (COPY, ("aten::copy_", "aten::_to_copy", "aten::to", "aten::cpu")),
)  # fmt: skip

# Functions of torch's that wait for reasons of their own, and belong to other rules or to none.
_OWN: Final = (
    ("torch/profiler/profiler.py", ("step", "start", "stop", "__enter__", "__exit__", "start_trace", "stop_trace")),
    ("torch/autograd/profiler.py", ("__enter__", "__exit__", "_start_trace")),
    ("torch/cuda/memory.py", ("empty_cache",)),
    ("torch/_inductor/cudagraph_trees.py", ("run", "record_function", "run_eager", "_run")),
    ("torch/cuda/graphs.py", ("__enter__", "__exit__", "capture_begin", "capture_end", "replay")),
)
# Sharded training bounds by such waits how far the host runs ahead; it is no line of the user's.
_SHARDING: Final = ("torch/distributed/fsdp", "torch/distributed/_composable", "deepspeed/", "megatron/")
_SPELLED: Final = (
    ("torch/cuda/__init__.py", ("synchronize",)),
    ("torch/cuda/streams.py", ("synchronize",)),
    ("torch/accelerator/__init__.py", ("synchronize",)),
)
_SCALER: Final = (
    ("torch/amp/grad_scaler.py", ("step", "update", "_maybe_opt_step", "unscale_")),
    ("torch/cuda/amp/grad_scaler.py", ("step", "update", "_maybe_opt_step", "unscale_")),
)


class Waits(Struct, frozen=True):
    """Waits in judged steps, in order: rows of calls, kinds, owners, and what each costs.

    `begin` is where the host stopped going on (the copy that the wait is for, if one is),
    `low` to `high` the part of the device's gap that is the wait's, `idle` its ns.
    """

    rows: Rows
    kind: Rows
    owner: NDArray[np.int8]
    begin: Rows
    end: Rows
    low: Rows
    high: Rows
    idle: Rows


class WaitSite(Struct, frozen=True):
    """Waits in one of the user's functions, with their kinds, the commonest first; ns of all judged steps."""

    kinds: tuple[int, ...]
    place: Place | None
    count: int
    steps: int
    blocked: int
    idle: int
    spelled: str


USER, OPTIMIZER, SCALER, ENGINE = range(4)  # owners


def waits_of(p: Profile) -> Waits:
    """All waits of the threads that drive the device, but for those that belong to other topics."""
    if "waits" not in p.memo:
        p.memo["waits"] = _found(p)
    found: Waits = p.memo["waits"]
    return found


def idle_after(p: Profile) -> Cover:
    """The idle time that is the waits'."""
    w = waits_of(p)
    return Cover.of(w.low, w.high).overlap(host_idle(p))


def sites(p: Profile, kinds: tuple[int, ...], owner: int = USER) -> list[WaitSite]:
    """Waits of these kinds by the user's function, the costliest first."""
    w = waits_of(p)
    mine = np.flatnonzero(np.isin(w.kind, kinds) & (w.owner == owner))
    found = []
    times = p.rank.calls["start"][w.rows[mine]] if owner == ENGINE else p.rank.times_of_calls(w.rows[mine])
    for s in p.sites(_frames(p, w.rows[mine], owner), mine, w.idle[mine], times):
        step = p.steps.of(p.rank.calls["start"][w.rows[s.rows]])
        blocked = int((w.end - w.begin)[s.rows].sum())
        names, counts = np.unique(w.kind[s.rows], return_counts=True)
        ordered = tuple(int(k) for k in names[np.argsort(-counts, kind="stable")])
        word = spelled(p, w.rows[s.rows])
        found.append(WaitSite(ordered, s.place, s.count, len(np.unique(step)), blocked, s.ns, word))
    return sorted(found, key=lambda s: (-s.idle, -s.blocked))


def _frames(p: Profile, rows: Rows, owner: int) -> Rows:
    """The user's frame that each wait belongs to; the engine's own belong to the call of backward."""
    r = p.rank
    if owner != ENGINE or not len(r.frames):
        return r.user_frame_of_calls(rows)
    frame = r.frame_at(np.full(len(rows), r.main_thread, np.int32), r.calls["start"][rows])
    return np.where(frame >= 0, r.user_frame[np.maximum(frame, 0)], NONE)


def recurring(p: Profile, site: WaitSite) -> bool:
    """Whether it happens in most judged steps; in a single window, at least three times."""
    return site.steps * 2 > len(p.steps) if len(p.steps) > 1 else site.count >= 3


def _found(p: Profile) -> Waits:
    r = p.rank
    start = r.calls["start"]
    mask = p.activity.calls_of(WAITS) & p.in_steps(start)
    rows = np.flatnonzero(mask)
    rows = rows[~_others(p, rows)]
    kind, begin = _kinds(p, rows)
    kept = (kind != UPLOAD) & (kind != OTHER)
    kept &= (kind != EXPLICIT) | _asked_for(p, rows)
    rows, kind, begin = rows[kept], kind[kept], begin[kept]
    order = np.argsort(r.calls["end"][rows], kind="stable")
    rows, kind, begin = rows[order], kind[order], begin[order]
    end = r.calls["end"][rows]
    low, high = _gap_behind(r.busy, begin, end)
    idle = host_idle(p).within(low, high)
    return Waits(rows, kind, _owners(p, rows, kind), begin, end, low, high, idle)


def _others(p: Profile, rows: Rows) -> Mask:
    """Waits inside loading or compiling, of the profiler's own, of the allocator's."""
    r = p.rank
    start = r.calls["start"][rows]
    a = p.activity
    found = a.loading.holds(start) | a.compiling.holds(start) | a.saving.holds(start)
    own = p.activity.frames_of(_OWN) | r.where(r.frames, _SHARDING)
    return found | (_frame_above(p, rows, own) >= 0)


def _asked_for(p: Profile, rows: Rows) -> Mask:
    """Whether the user's code asked for each wait outside operators; a library's own waits are no line of the user's.

    True where no Python frame is known.
    """
    r = p.rank
    if not len(r.frames):
        return np.ones(len(rows), np.bool_)
    frame = r.frame_at(r.calls["thread"][rows], r.calls["start"][rows])
    ways = p.activity.frames_of(_SPELLED) | p.rank.where(r.frames, ("<built-in", "<method"))
    caller = nearest(r.frame_nest.parent, ~ways)
    caller = np.where(frame >= 0, caller[np.maximum(frame, 0)], NONE)
    asked: Mask = (frame < 0) | ((caller >= 0) & (r.user_frame[np.maximum(caller, 0)] == caller))
    return asked


def _frame_above(p: Profile, rows: Rows, wanted: Mask) -> Rows:
    """The nearest of these frames around each call, or -1."""
    r = p.rank
    if not len(r.frames):
        return np.full(len(rows), NONE, np.int64)
    frame = r.frame_at(r.calls["thread"][rows], r.calls["start"][rows])
    above = nearest(r.frame_nest.parent, wanted)
    return np.where(frame >= 0, above[np.maximum(frame, 0)], NONE)


def spelled(p: Profile, rows: Rows) -> str:
    """How most of these waits (rows of calls) were asked for in Python, or the call's own name."""
    r = p.rank
    frames = _frame_above(p, rows, p.activity.frames_of(_SPELLED))
    call = r.named(r.calls, int(rows[0]))
    told = frames[frames >= 0]
    if len(told) * 2 <= len(rows):
        return f"`{call}`"
    names, counts = np.unique(r.frames["name"][told], return_counts=True)
    commonest = r.frame_names[int(names[np.argmax(counts)])]
    return f"`{_owner_of(commonest.file, call)}.{commonest.function}()`"


def _owner_of(file: str, call: str) -> str:
    """What in Python has the method; events and streams share a file."""
    if file.endswith("streams.py"):
        return "Event" if "Event" in call else "Stream"
    return "torch.accelerator" if "accelerator" in file else "torch.cuda"


def _kinds(p: Profile, rows: Rows) -> tuple[Rows, Rows]:
    """(kind, begin) of each wait."""
    r = p.rank
    begin = r.calls["start"][rows].copy()
    op = r.op_of_call[rows] if len(r.ops) else np.full(len(rows), NONE, np.int64)
    kind = np.where(op < 0, EXPLICIT, OTHER)
    if not len(r.ops):
        return kind, begin
    inside = np.maximum(op, 0)
    for k, names in reversed(_OPS):
        around = nearest(r.op_nest.parent, r.where(r.ops, names, exact=True))[inside] >= 0
        kind = np.where((op >= 0) & around, k, kind)
    down, up, first = _copies_by_op(p)
    begin = np.where(op >= 0, np.minimum(begin, first[inside]), begin)
    # A copy to the device, or one of which no trace is left, is no wait for a result.
    kind = np.where((kind == COPY) & ~down[inside], UPLOAD, kind)
    # What only uploads (a list made a tensor inside an operator) is a matter of copies, too.
    kind = np.where((kind == OTHER) & up[inside] & ~down[inside], UPLOAD, kind)
    return kind, begin


def _copies_by_op(p: Profile) -> tuple[Mask, Mask, Rows]:
    """For each operator: whether it copies from the device, to it, and when its first copy was called."""
    r = p.rank
    n = len(r.ops)
    down, up = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    first = np.full(n, 1 << 62, np.int64)
    call = r.launch_of(r.copies)
    known = np.flatnonzero(call >= 0)
    op = r.op_of_call[call[known]] if len(known) else known
    inside = op >= 0
    known, op = known[inside], op[inside]
    down[op[r.matching(r.copies, ("dtoh", "devicetohost", "device to host"))[known]]] = True
    up[op[r.matching(r.copies, ("htod", "hosttodevice", "host to device"))[known]]] = True
    np.minimum.at(first, op, r.calls["start"][call[known]])
    return down, up, first


def _owners(p: Profile, rows: Rows, kind: Rows) -> NDArray[np.int8]:
    """Whose wait it is: the user's, the optimizer's own, the gradient scaler's, or the backward engine's."""
    r = p.rank
    stepping = r.where(r.annotations, "Optimizer.step#")
    inside = Cover.of(r.annotations["start"][stepping], r.annotations["end"][stepping])
    owner = np.where(inside.holds(r.calls["start"][rows]), OPTIMIZER, USER)
    owner = np.where(_frame_above(p, rows, p.activity.frames_of(_SCALER)) >= 0, SCALER, owner)
    if len(r.ops) and len(r.frames):
        # Backward functions written in Python have frames on their thread; the engine reads values in anomaly mode.
        engine = nearest(r.op_nest.parent, r.where(r.ops, "autograd::engine::evaluate_function"))
        op = r.op_of_call[rows]
        within = (op >= 0) & (engine[np.maximum(op, 0)] >= 0)
        bare = r.frame_at(r.calls["thread"][rows], r.calls["start"][rows]) < 0
        owner = np.where(within & bare & np.isin(kind, (ITEM, BRANCH)), ENGINE, owner)
    return owner.astype(np.int8)


def _gap_behind(busy: Cover, begin: Rows, end: Rows) -> tuple[Rows, Rows]:
    """The part of the device's gap at each wait's end that is the wait's, without what an earlier wait has."""
    none = np.zeros(len(end), np.int64)
    if len(busy) < 2 or not len(end):
        return none, none
    starts, ends = busy.ends[:-1], busy.starts[1:]
    at = np.maximum(np.searchsorted(starts, end + SKEW, "right") - 1, 0)
    open_ = (starts[at] <= end + SKEW) & (ends[at] > end)
    low = np.maximum(starts[at], begin)
    high = np.where(open_, np.minimum(ends[at], low + (end - begin)), low)
    # In order of their ends; one whose part begins inside an earlier one's takes the rest of it.
    taken = np.concatenate(([0], np.maximum.accumulate(high)[:-1]))
    taken = np.where(taken > low, taken, low)
    return np.minimum(taken, high), high
