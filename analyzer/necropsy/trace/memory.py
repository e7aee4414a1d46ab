"""Device memory over time, from the allocator's events (`profile_memory=True`)."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from necropsy.trace.profile import Profile, Site
from necropsy.trace.rank import Rows

HOST: Final = 0  # c10::DeviceType of the CPU; CUDA is 1, HIP 6, XPU 12
LEAST_GROWTH: Final = 1 << 20  # bytes a step; losses kept as numbers are some 512
_BACKWARD: Final = ("torch/_tensor.py", "torch/autograd/__init__.py")
EVEN: Final = 0.5  # of the median: a step that grows by less is not the same pattern


class Curve(Struct, frozen=True):
    """The allocator's state of one device at each event: ns, bytes allocated and reserved; `capacity` 0 if unknown."""

    device: int
    rows: Rows
    time: Rows
    allocated: Rows
    reserved: Rows
    capacity: int

    @property
    def peak(self) -> int:
        """Index of the event with most bytes allocated."""
        return int(np.argmax(self.allocated))

    def at(self, times: Rows) -> Rows:
        """Bytes allocated at each time; before the first event as it found them, less its own."""
        n = np.searchsorted(self.time, times, "right") - 1
        return np.where(n >= 0, self.allocated[np.maximum(n, 0)], self.allocated[0])


class Growth(Struct, frozen=True):
    """Memory that stays: bytes a step (median), at the last step's end, and steps until none is left (0: unknown)."""

    each: int
    last: int
    until: int


def curves(p: Profile) -> list[Curve]:
    """One curve a GPU with events, the fullest first."""
    if "memory.curves" not in p.memo:
        p.memo["memory.curves"] = _curves(p)
    found: list[Curve] = p.memo["memory.curves"]
    return found


def _curves(p: Profile) -> list[Curve]:
    m = p.rank.kind("memory")
    told = (m["device_type"] > HOST) & (m["allocated"] >= 0) & (m["reserved"] > 0)
    found = []
    for device in np.unique(m["device"][told]).tolist():
        rows = np.flatnonzero(told & (m["device"] == device))
        rows = rows[np.argsort(m["start"][rows], kind="stable")]
        capacity = next((d.memory for d in p.trace.meta.devices if d.number == device), 0)
        found.append(Curve(device, rows, m["start"][rows], m["allocated"][rows], m["reserved"][rows], max(0, capacity)))
    return sorted(found, key=lambda c: -int(c.allocated.max()))


def growth(p: Profile, curve: Curve) -> Growth | None:
    """Memory that rises by about the same amount in every judged step; None for anything else."""
    steps = p.steps
    if steps.how == "window" or len(steps) < 3:
        return None
    ends = curve.at(steps.end - 1)
    began = int(curve.allocated[0]) - int(p.rank.kind("memory")["bytes"][curve.rows[0]])
    rises = np.diff(np.concatenate(([min(began, int(curve.at(steps.start[:1])[0]))], ends)))
    usual = int(np.median(rises))
    if usual < LEAST_GROWTH or int(rises.min()) < EVEN * usual:
        return None
    left = curve.capacity - int(ends[-1])
    return Growth(usual, int(ends[-1]), left // usual if curve.capacity and left > 0 else 0)


def kept_sites(p: Profile, curve: Curve) -> list[Site]:
    """Where the memory was allocated that the steps but the last took and nobody gave back; `ns` is bytes here."""
    r, m = p.rank, p.rank.kind("memory")
    order = curve.rows[np.lexsort((m["start"][curve.rows], m["address"][curve.rows]))]
    address, size = m["address"][order], m["bytes"][order]
    freed = np.concatenate((address[1:] == address[:-1], [False]))
    inside = (m["start"][order] >= p.steps.start[0]) & (m["start"][order] < p.steps.end[-2])
    rows = order[(size > 0) & ~freed & inside]
    if not len(rows):
        return []
    thread, time = m["thread"][rows], m["start"][rows]
    op = r.op_nest.innermost(thread, time) if len(r.ops) else np.full(len(rows), -1, np.int64)
    frames = r.user_frame_of_ops(op)
    lost = np.flatnonzero(frames < 0)
    if len(lost) and len(r.frames):
        at = r.frame_at(thread[lost], time[lost])
        frames[lost] = np.where(at >= 0, r.user_frame[np.maximum(at, 0)], -1)
    times = r.times_of_ops(op)
    return p.sites(frames, rows, m["bytes"][rows], np.where(times >= 0, times, time))


def backward_sites(p: Profile) -> list[Site]:
    """The user's functions that call `backward()` in the judged steps (rows of frames)."""
    r = p.rank
    names = [
        n for n, f in r.frame_names.items()
        if f.function == "backward" and f.file.replace("\\", "/").endswith(_BACKWARD)
    ]  # fmt: skip
    if not names:
        return []
    rows = np.flatnonzero(np.isin(r.frames["name"], np.array(names, np.int64)) & p.in_steps(r.frames["start"]))
    return p.sites(r.user_frame[rows], rows, r.frames["end"][rows] - r.frames["start"][rows], r.frames["start"][rows])


def peak_site(p: Profile, curve: Curve) -> Site | None:
    """The user's function that allocated when most was in use."""
    r, m, row = p.rank, p.rank.kind("memory"), curve.rows[curve.peak : curve.peak + 1]
    if not len(r.ops) or not len(r.frames):
        return None
    op = r.op_nest.innermost(m["thread"][row], m["start"][row])
    sites = p.sites(r.user_frame_of_ops(op), row, m["bytes"][row], r.times_of_ops(op))
    return sites[0] if sites else None


def trains(p: Profile) -> bool:
    """Whether a backward pass was recorded."""
    return bool(p.rank.where(p.rank.ops, "autograd::engine::evaluate_function").any())


def reserved_growth(p: Profile, curve: Curve) -> int:
    """Bytes a step by which reserved memory rises in every judged step but the first; 0 if it does not."""
    n = np.searchsorted(curve.time, p.steps.end, "left") - 1
    rises = np.diff(curve.reserved[np.maximum(n, 0)])
    return int(np.median(rises)) if len(rises) and int(rises.min()) > 0 else 0
