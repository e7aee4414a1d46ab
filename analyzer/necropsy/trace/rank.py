"""One process's trace with its links: GPU work -> launch -> operator -> Python frame -> the user's function."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from necropsy_parsers.trace.columns import Columns
from necropsy_parsers.trace.kinds import KINDS
from necropsy_parsers.trace.marks import KIND
from necropsy_parsers.trace.model import Trace

from necropsy.trace.intervals import Cover
from necropsy.trace.names import FrameName, parsed
from necropsy.trace.nesting import NONE, Nest, nearest

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

_COLUMNS: Final = ("name", "start", "end", "process", "thread")


class RankTrace:
    """A trace and what follows from it. All rows are indexes into the columns of a kind."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.meta = trace.meta
        self.rank = trace.origin.rank
        self.input = trace.anchor.input

    # -- columns --------------------------------------------------------------

    def kind(self, name: str) -> Columns:
        """The columns of a kind; without rows where the trace has none."""
        found = self.trace.kinds.get(name)
        return found if found is not None else _nothing(name)

    @cached_property
    def kernels(self) -> Columns:
        """Kernels in order of their start."""
        return _sorted(self.kind("kernel"))

    @cached_property
    def copies(self) -> Columns:
        """Copies between host and devices and within them."""
        return _sorted(self.kind("copy"))

    @cached_property
    def memsets(self) -> Columns:
        """Memory set by the device."""
        return _sorted(self.kind("memset"))

    @cached_property
    def calls(self) -> Columns:
        """Calls of the runtime and the driver, in order of their start."""
        return _sorted(self.kind("call"))

    @cached_property
    def ops(self) -> Columns:
        """Operators."""
        return _sorted(self.kind("op"))

    @cached_property
    def frames(self) -> Columns:
        """Python frames; of a trace without stacks the lines that a capture marked, which stand for the user's."""
        frames = self.kind("frame")
        if len(frames) or KIND not in self.trace.kinds:
            return frames
        marks = self.trace.kinds[KIND]
        blank = {c: np.full(len(marks), NONE, np.int64) for c in KINDS["frame"].columns}
        return Columns({**blank, **marks.arrays}, len(marks))

    @cached_property
    def annotations(self) -> Columns:
        """Ranges that the program or torch named."""
        return _sorted(self.kind("annotation"))

    # -- names ----------------------------------------------------------------

    def named(self, columns: Columns, row: int) -> str:
        """The name of a row."""
        return self.trace.names[int(columns["name"][row])]

    def where(self, columns: Columns, test: str | tuple[str, ...], *, exact: bool = False) -> Mask:
        """Rows whose name begins with (or is) one of the texts."""
        texts = (test,) if isinstance(test, str) else test
        wanted = [n in texts if exact else n.startswith(texts) for n in self.trace.names]
        return np.array(wanted, np.bool_)[columns["name"]] if len(columns) else np.zeros(0, np.bool_)

    def matching(self, columns: Columns, words: tuple[str, ...]) -> Mask:
        """Rows whose name, in lower case, holds one of the words."""
        wanted = [any(w in n for w in words) for n in (name.lower() for name in self.trace.names)]
        return np.array(wanted, np.bool_)[columns["name"]] if len(columns) else np.zeros(0, np.bool_)

    # -- the device -----------------------------------------------------------

    @cached_property
    def has_gpu(self) -> bool:
        """Whether any work of a device was recorded."""
        return bool(len(self.kernels) or len(self.copies) or len(self.memsets))

    @cached_property
    def collective(self) -> Mask:
        """Kernels that communicate: NCCL's, RCCL's and their like."""
        told = self.kernels["collective"] > 0 if len(self.kernels) else np.zeros(0, np.bool_)
        return told | self.matching(
            self.kernels, ("nccl", "rccl", "oneccl", "nvshmem", "cross_device_reduce", "all_reduce_two_shot")
        )

    @cached_property
    def busy(self) -> Cover:
        """When the device ran anything."""
        return self.computing.union(self.communicating, self.copying)

    @cached_property
    def computing(self) -> Cover:
        """When a kernel ran that does not communicate."""
        rows = ~self.collective
        return Cover.of(self.kernels["start"][rows], self.kernels["end"][rows])

    @cached_property
    def communicating(self) -> Cover:
        """When a collective ran."""
        return Cover.of(self.kernels["start"][self.collective], self.kernels["end"][self.collective])

    @cached_property
    def copying(self) -> Cover:
        """When a copy or memset ran."""
        parts = (self.copies, self.memsets)
        return Cover.of(np.concatenate([p["start"] for p in parts]), np.concatenate([p["end"] for p in parts]))

    @cached_property
    def streams(self) -> list[tuple[int, int, int, int, int]]:
        """(device, stream, kernels, copies and memsets, busy ns) of each stream."""
        work = [self.kernels, self.copies, self.memsets]
        device = np.concatenate([w["device"] for w in work])
        stream = np.concatenate([w["stream"] for w in work])
        start, end = (np.concatenate([w[c] for w in work]) for c in ("start", "end"))
        kernel = np.arange(len(start)) < len(self.kernels)
        found = []
        for d, s in np.unique(np.stack((device, stream), axis=1), axis=0):
            mine = (device == d) & (stream == s)
            both = int(kernel[mine].sum()), int((~kernel[mine]).sum())
            found.append((int(d), int(s), *both, Cover.of(start[mine], end[mine]).total))
        return found

    # -- links ----------------------------------------------------------------

    @cached_property
    def _call_of_correlation(self) -> tuple[Rows, Rows]:
        rows = np.flatnonzero(self.calls["correlation"] >= 0)
        order = np.argsort(self.calls["correlation"][rows], kind="stable")
        return self.calls["correlation"][rows][order], rows[order]

    def launch_of(self, work: Columns) -> Rows:
        """Row of the call that submitted each row of GPU work, or -1."""
        return _looked_up(*self._call_of_correlation, work["correlation"])

    @cached_property
    def op_nest(self) -> Nest:
        """Operators as they enclose each other on their threads."""
        return Nest(self.ops["start"], self.ops["end"], self.ops["thread"])

    @cached_property
    def op_of_call(self) -> Rows:
        """Row of the innermost operator around each call, or -1."""
        return self.op_nest.innermost(self.calls["thread"], self.calls["start"])

    @cached_property
    def _op_of_external(self) -> tuple[Rows, Rows]:
        rows = np.flatnonzero(self.ops["external"] > 0)
        order = np.argsort(self.ops["external"][rows], kind="stable")
        return self.ops["external"][rows][order], rows[order]

    def op_of(self, work: Columns) -> Rows:
        """Row of the innermost operator that submitted each row of GPU work, or -1."""
        call = self.launch_of(work)
        found = np.where(call >= 0, self.op_of_call[np.maximum(call, 0)] if len(self.calls) else NONE, NONE)
        by_id = _looked_up(*self._op_of_external, work["external"])
        return np.where(found >= 0, found, by_id)

    @cached_property
    def forward_of(self) -> Rows:
        """For each operator inside the backward pass, the forward operator that made its node, or -1.

        The node's number (`Sequence number`) and the thread of the forward pass stand on
        `autograd::engine::evaluate_function: XBackward0`; of the operators of that number
        on that thread, the last to start made the node.
        """
        ops = self.ops
        found = np.full(len(ops), NONE, np.int64)
        inside = nearest(self.op_nest.parent, self.where(ops, "autograd::engine::evaluate_function"))
        rows = np.flatnonzero(inside >= 0)
        if not len(rows):
            return found
        made = np.flatnonzero((ops["sequence"] >= 0) & (inside < 0))
        order = made[np.argsort(ops["sequence"][made], kind="stable")]  # rows are in order of start already
        numbers = ops["sequence"][order]
        wanted = ops["sequence"][inside[rows]]
        at = np.searchsorted(numbers, wanted, "right") - 1
        hit = (at >= 0) & (wanted >= 0)
        hit &= numbers[np.maximum(at, 0)] == wanted if len(numbers) else False
        made_by = order[np.maximum(at, 0)] if len(order) else np.full(len(rows), NONE)
        found[rows] = np.where(hit, made_by, NONE)
        return found

    @cached_property
    def _asked_for(self) -> Rows:
        """For each operator the one at whose time and place it was asked for: of the backward pass the forward one.

        Backward functions, hooks and recomputed forward passes that are the user's own Python run
        inside the engine's operator: what they call is theirs.
        """
        forward = self.forward_of
        rows = np.flatnonzero(forward >= 0)
        found = np.where(forward >= 0, forward, np.arange(len(forward)))
        if len(rows) and len(self.frames):
            engine = nearest(self.op_nest.parent, self.where(self.ops, "autograd::engine::evaluate_function"))
            frame = self.frame_at(self.ops["thread"][rows], self.ops["start"][rows])
            user = np.where(frame >= 0, self.user_frame[np.maximum(frame, 0)], NONE)
            begun = self.frames["start"][np.maximum(user, 0)] >= self.ops["start"][np.maximum(engine[rows], 0)]
            own = rows[(user >= 0) & (engine[rows] >= 0) & begun]
            found[own] = own
        return found

    # -- Python ---------------------------------------------------------------

    @cached_property
    def frame_nest(self) -> Nest:
        """Python frames as they enclose each other on their threads."""
        return Nest(self.frames["start"], self.frames["end"], self.frames["thread"])

    @cached_property
    def frame_names(self) -> dict[int, FrameName]:
        """Index of a name -> the frame it is."""
        return {int(n): parsed(self.trace.names[int(n)]) for n in np.unique(self.frames["name"])}

    @cached_property
    def user_frame(self) -> Rows:
        """For each Python frame, itself or the nearest one outside it that is the user's, or -1.

        Where a whole trace has no frame of the user's own, packages other than torch count:
        the project may be one of them.
        """
        kinds = {n: f.kind for n, f in self.frame_names.items()}
        wanted = {n for n, kind in kinds.items() if kind == "user"}
        if not wanted:
            wanted = {
                n for n, f in self.frame_names.items()
                if f.kind == "package" and not f.file.startswith(("torch/", "triton/", "torch\\", "triton\\"))
            }  # fmt: skip
        if not len(self.frames):
            return np.empty(0, np.int64)
        table = np.zeros(len(self.trace.names), np.bool_)
        table[list(wanted)] = True
        return nearest(self.frame_nest.parent, table[self.frames["name"]])

    def frame_at(self, thread: NDArray[np.int32], time: Rows) -> Rows:
        """Row of the innermost Python frame that holds each (thread, time), or -1."""
        return self.frame_nest.innermost(thread, time) if len(self.frames) else np.full(len(time), NONE, np.int64)

    def user_frame_of_ops(self, ops: Rows) -> Rows:
        """Row of the user's frame from which each operator (by row, -1 for none) was called, or -1.

        Operators of the backward pass belong to the frame of their forward operator, but for those that
        Python of the user's calls in it; those that have none (the engine's own, accumulation) to the call of backward.
        """
        known = np.maximum(ops, 0)
        if not len(self.ops) or not len(self.frames):
            return np.full(len(ops), NONE, np.int64)
        at = self._asked_for[known]
        frame = self.frame_at(self.ops["thread"][at], self.ops["start"][at])
        user = np.where(frame >= 0, self.user_frame[np.maximum(frame, 0)], NONE)
        lost = np.flatnonzero((user < 0) & (ops >= 0))
        if len(lost):
            frame = self.frame_at(np.full(len(lost), self.main_thread, np.int32), self.ops["start"][known[lost]])
            user[lost] = np.where(frame >= 0, self.user_frame[np.maximum(frame, 0)], NONE)
        return np.where(ops >= 0, user, NONE)

    def user_frame_of_calls(self, calls: Rows) -> Rows:
        """Row of the user's frame from which each call of the runtime was made, or -1."""
        known = np.maximum(calls, 0)
        if not len(self.calls):
            return np.full(len(calls), NONE, np.int64)
        op = np.where(calls >= 0, self.op_of_call[known], NONE)
        user = self.user_frame_of_ops(op)
        bare = np.flatnonzero((user < 0) & (calls >= 0))
        if len(bare) and len(self.frames):
            rows = known[bare]
            frame = self.frame_at(self.calls["thread"][rows], self.calls["start"][rows])
            user[bare] = np.where(frame >= 0, self.user_frame[np.maximum(frame, 0)], NONE)
        return user

    def times_of_ops(self, ops: Rows) -> Rows:
        """When each operator (by row, -1 for none) was asked for: of the backward pass, when its forward one was."""
        known = np.maximum(ops, 0)
        if not len(self.ops):
            return np.full(len(ops), NONE, np.int64)
        start = self.ops["start"][self._asked_for[known]]
        return np.where(ops >= 0, start, NONE)

    def times_of_calls(self, calls: Rows, ops: Rows | None = None) -> Rows:
        """When each call of the runtime (by row, -1 for none) was asked for; `ops` are the operators around them."""
        known = np.maximum(calls, 0)
        if ops is None:
            ops = np.where(calls >= 0, self.op_of_call[known], NONE) if len(self.calls) else calls
        times = self.times_of_ops(ops)
        bare = np.flatnonzero((times < 0) & (calls >= 0))
        times[bare] = self.calls["start"][known[bare]]
        return times

    @cached_property
    def main_thread(self) -> int:
        """The thread of the step annotations, else of most Python frames, else of most operators."""
        steps = self.where(self.annotations, "ProfilerStep#")
        for columns in (self.annotations.take(steps), self.frames, self.ops, self.calls):
            if len(columns):
                threads, counts = np.unique(columns["thread"], return_counts=True)
                return int(threads[np.argmax(counts)])
        return NONE

    @cached_property
    def window(self) -> tuple[int, int]:
        """First and last nanosecond of anything that was measured."""
        parts = [self.kind(k) for k in ("op", "kernel", "copy", "memset", "call", "annotation", "frame")]
        parts = [p for p in parts if len(p)]
        if not parts:
            return (0, 0)
        return int(min(p["start"].min() for p in parts)), int(max(p["end"].max() for p in parts))


def _nothing(name: str) -> Columns:
    arrays: dict[str, NDArray[np.int64]] = {c: np.empty(0, np.int64) for c in (*_COLUMNS, *KINDS[name].columns, "id")}
    return Columns(arrays, 0)


def _sorted(columns: Columns) -> Columns:
    start = columns["start"]
    if len(start) < 2 or bool((start[1:] >= start[:-1]).all()):
        return columns
    return columns.take(np.argsort(start, kind="stable"))


def _looked_up(keys: Rows, rows: Rows, wanted: NDArray[np.int64]) -> Rows:
    """The first row of each wanted key, or -1."""
    if not len(keys):
        return np.full(len(wanted), NONE, np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((keys[at] == wanted) & (wanted >= 0), rows[at], NONE)
