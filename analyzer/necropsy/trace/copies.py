"""Copies between host and device in the judged steps, each with what it cost and the one rule that tells it."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy.finding import Place
from necropsy.trace.built import built_on_host
from necropsy.trace.idle import covers
from necropsy.trace.nesting import nearest
from necropsy.trace.profile import Profile
from necropsy.trace.rank import Mask, Rows
from necropsy.trace.steps import MIN_REPEATS

# Below this a copy takes as long as its launch, whatever the link: 64 KiB are 2.6 us at PCIe 4's 25 GB/s.
LARGE: Final = 64 << 10
# Copies from which a bandwidth is the link's, not the latency's: 1 MiB is 20 us at PCIe 5's 55 GB/s.
STREAMED: Final = 1 << 20
# GB/s below which a pinned copy of 1 MiB or more is slow on every x16 link since PCIe 3 (about 12 GB/s pinned;
# 3 GB/s is what the founding article calls bad).
SLOW_PINNED: Final = 6.0
MOST_SITES: Final = 3  # findings of one kind a trace
RECURS: Final = 0.5  # of the judged steps in which a pattern must be seen

# Calls that return when the copy is done (cudaMemcpyAsync and hipMemcpyWithStream are torch's own).
BLOCKING: Final = (
    "cudaMemcpy", "cudaMemcpy2D", "cudaMemcpy3D", "cudaMemcpyToSymbol", "cudaMemcpyFromSymbol", "hipMemcpy",
    "hipMemcpy2D", "hipMemcpyHtoD", "hipMemcpyDtoH", "cuMemcpy", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2",
)  # fmt: skip
_MOVES: Final = ("aten::to", "aten::_to_copy", "aten::copy_", "aten::cuda", "aten::cpu", "aten::pin_memory")
_READS: Final = ("aten::_local_scalar_dense", "aten::item", "aten::nonzero", "aten::is_nonzero", "aten::equal")


_BLOCKING_SETS: Final = ("cudaMemset", "cudaMemset2D", "hipMemset", "cuMemsetD8_v2", "cuMemsetD32_v2")


class CopySite(Struct, frozen=True):
    """Copies of one kind from one function; times are ns of all judged steps.

    `exposed` is the time in which the device did nothing else, `host` that of the operators
    that asked for the copies, `steps` the number of steps with any.
    """

    place: Place | None
    count: int
    bytes: int
    ns: int
    exposed: int
    host: int
    steps: int
    in_vain: bool  # asked for with non_blocking=True
    rows: Rows

    @property
    def rate(self) -> float:
        """GB/s; 0 where sizes or times are not told."""
        return self.bytes / self.ns if self.ns > 0 and self.bytes > 0 else 0.0


class CopyBook:
    """The copies of the judged steps, by row: `way`, sizes, times, and `rule`, the code that tells them."""

    def __init__(self, p: Profile) -> None:
        self._p, r = p, p.rank
        inside = np.flatnonzero(p.in_steps(r.copies["start"])) if len(r.copies) else np.empty(0, np.int64)
        c = self.copies = r.copies.take(inside)
        self.bytes = np.maximum(c["bytes"], 0)
        self.ns = c["end"] - c["start"]
        self.step = p.steps.of(c["start"])
        self.call = r.launch_of(c)
        self.op = r.op_of(c)
        self.to_device = r.matching(c, ("htod", "hosttodevice"))
        self.to_host = r.matching(c, ("dtoh", "devicetohost"))
        self.pageable = r.matching(c, ("pageable",))
        self.pinned = r.matching(c, ("pinned",))
        self.exposed = self._exposed()
        self.frame = self._frames()
        self.time = r.times_of_calls(self.call, self.op)

    def _exposed(self) -> Rows:
        """Each copy's part of the bucket `copies`; of copies at the same time the first to start has it."""
        c = self.copies
        if not len(c):
            return np.empty(0, np.int64)
        alone = covers(self._p)["copies"]
        reach = np.concatenate(([c["start"][0]], np.maximum.accumulate(c["end"])[:-1]))
        begin = np.maximum(c["start"], reach)
        stop = np.maximum(np.minimum(c["end"], self._p.steps.end[self.step]), begin)
        return np.asarray(alone.within(begin, stop))

    def _frames(self) -> Rows:
        r = self._p.rank
        frames = r.user_frame_of_ops(self.op)
        lost = np.flatnonzero(frames < 0)
        frames[lost] = r.user_frame_of_calls(self.call[lost])
        return frames

    # -- whose they are -------------------------------------------------------

    @property
    def rule(self) -> NDArray[np.str_]:
        """The code of the rule that tells each copy; "" for copies on the device and reads of one number."""
        r, n = self._p.rank, len(self.copies)
        moved = self.to_device | self.to_host
        code = np.where(moved & ~self.reads & ~self.saved, "MEM005", "").astype("U6") if n else np.empty(0, "U6")
        large = self.bytes >= LARGE
        code[self.to_device & self.pageable & large] = "MEM003"
        code[moved & self.pinned & self.crawling] = "MEM007"
        blocking = r.where(r.calls, BLOCKING, exact=True)
        code[moved & np.where(self.call >= 0, blocking[self.call] if len(r.calls) else False, False)] = "MEM004"
        code[self.to_device & built_on_host(self._p, self.op, self.frame, self.bytes)] = "MEM002"
        return code

    @property
    def reads(self) -> Mask:
        """Reads of numbers (`.item()`): a wait, whose copy costs nothing."""
        r = self._p.rank
        if not len(r.ops):
            return np.zeros(len(self.copies), np.bool_)
        inside = nearest(r.op_nest.parent, r.where(r.ops, _READS, exact=True)) >= 0
        return np.where(self.op >= 0, inside[self.op], False)

    @property
    def saved(self) -> Mask:
        """Copies of a checkpoint that is being written: another rule tells what that costs."""
        r = self._p.rank
        if not len(r.calls):
            return np.zeros(len(self.copies), np.bool_)
        asked = np.where(self.call >= 0, r.calls["start"][np.maximum(self.call, 0)], -1)
        return np.asarray(self._p.activity.saving.holds(asked))

    @property
    def crawling(self) -> Mask:
        """Copies of a size at which the link's speed shows, and which run far below any link's."""
        streamed = (self.bytes >= STREAMED) & (self.ns > 0)
        return np.asarray(streamed & (self.bytes < SLOW_PINNED * np.maximum(self.ns, 1)))

    # -- sites ----------------------------------------------------------------

    def sites(self, mask: Mask) -> list[CopySite]:
        """Copies grouped by the user's function, those that are exposed the longest first."""
        p, rows = self._p, np.flatnonzero(mask)
        found = []
        for s in p.sites(self.frame[rows], rows, self.exposed[rows], self.time[rows]):
            mine = s.rows
            found.append(
                CopySite(
                    s.place, s.count, int(self.bytes[mine].sum()), int(self.ns[mine].sum()), s.ns,
                    self._host(mine), len(np.unique(self.step[mine])), self._non_blocking(mine), mine,
                )
            )  # fmt: skip
        return found

    def recurring(self, site: CopySite) -> bool:
        """Whether most steps have such a copy; of a single step or window nothing recurs."""
        n = len(self._p.steps)
        return n >= 2 and site.steps >= max(2, RECURS * n)

    def _askers(self, rows: Rows) -> Rows:
        """The outermost operators that asked for the copies: `aten::to` around `aten::copy_`."""
        r = self._p.rank
        ops = np.unique(self.op[rows])
        ops = ops[ops >= 0]
        parent = r.op_nest.parent if len(r.ops) else ops
        moves = r.where(r.ops, _MOVES, exact=True)
        for _ in range(8):
            up = parent[ops]
            climbing = (up >= 0) & moves[np.maximum(up, 0)]
            if not climbing.any():
                break
            ops = np.where(climbing, up, ops)
        return np.unique(ops)

    def _host(self, rows: Rows) -> int:
        ops = self._askers(rows)
        if len(ops):
            return int((self._p.rank.ops["end"][ops] - self._p.rank.ops["start"][ops]).sum())
        calls = self.call[rows]
        calls = np.unique(calls[calls >= 0])
        return int((self._p.rank.calls["end"][calls] - self._p.rank.calls["start"][calls]).sum()) if len(calls) else 0

    def _non_blocking(self, rows: Rows) -> bool:
        """Whether `aten::copy_` was told not to wait: its third argument, where arguments were recorded."""
        r = self._p.rank
        ops = np.unique(self.op[rows])
        ops = ops[ops >= 0]
        texts = {int(t) for t in np.unique(r.ops["values"][ops])} if len(ops) else set()
        told = [r.trace.text(t) for t in texts]
        return any(isinstance(v, list) and len(v) == 3 and v[2] == "True" for v in told)


def copies_of(p: Profile) -> CopyBook:
    """The book of a trace, made once."""
    if "copies" not in p.memo:
        p.memo["copies"] = CopyBook(p)
    found = p.memo["copies"]
    assert isinstance(found, CopyBook)
    return found


def told_by(p: Profile, code: str) -> Mask:
    """Which of the book's copies a rule tells."""
    if "copies.rule" not in p.memo:
        p.memo["copies.rule"] = copies_of(p).rule
    return np.asarray(p.memo["copies.rule"] == code)


def sites_of(p: Profile, code: str) -> list[CopySite]:
    """The sites whose copies a rule tells."""
    return copies_of(p).sites(told_by(p, code))


def blocking_calls(p: Profile) -> Mask:
    """Calls in the judged steps that copy or set memory and return when it is done."""
    r = p.rank
    return r.where(r.calls, (*BLOCKING, *_BLOCKING_SETS), exact=True) & p.in_steps(r.calls["start"])


def exposed_of_calls(p: Profile, calls: Rows) -> int:
    """Nanoseconds in which the device did nothing but the copies of these calls."""
    book = copies_of(p)
    return int(book.exposed[np.isin(book.call, calls) & told_by(p, "MEM004")].sum())


def seen_often(p: Profile, times: Rows) -> bool:
    """Whether something happens in most judged steps, and in two at least; thrice in a window without steps."""
    if p.steps.how == "window":
        return int(p.in_steps(times).sum()) >= MIN_REPEATS
    step = p.steps.of(times)
    return len(np.unique(step[step >= 0])) >= max(2, RECURS * len(p.steps))


def has_loader(p: Profile) -> bool:
    """Whether batches come from a DataLoader."""
    return len(p.activity.loading) > 0


def pins(p: Profile) -> bool:
    """Whether the DataLoader pins its batches already: its thread for that, or its operator."""
    r = p.rank
    named = any("utils/data/_utils/pin_memory.py" in n for n in r.trace.names)
    return named or bool(r.where(r.ops, ("aten::pin_memory", "aten::_pin_memory"), exact=True).any())
