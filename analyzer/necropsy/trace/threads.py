"""Other threads of the process whose work coincides with the idle time of the device.

A thread that holds the interpreter's lock (or the driver's) stops those that launch work.
The trace shows no lock, but it shows the coincidence: the main thread is in no operator
and in no call, and the other thread works in just these gaps.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from necropsy.trace.intervals import Cover
from necropsy.trace.partition import covers_of
from necropsy.trace.profile import Profile
from necropsy.trace.rank import Mask

LONG: Final = 1_000_000  # ns; bubbles from which nsys-ai counts (gaps > 1 ms)
MOST: Final = 0.5  # of the idle time that the thread's work must cover

# Functions in which a thread waits, by the end of their frames' names; a wait is no work.
_WAITING: Final = (
    "acquire", "wait", "get", "poll", "select", "sleep", "recv", "recv_bytes", "_recv", "_recv_bytes", "read", "accept",
    "_wait_for_tstate_lock", "join", "epoll", "readline", "_poll", "wait_for",
)  # fmt: skip
_PINNING: Final = "torch/utils/data/_utils/pin_memory.py"


class Busy(Struct, frozen=True):
    """A thread: what it worked on during long idle gaps. `name` as the trace labels it; `what` by time."""

    thread: int
    name: str
    what: tuple[str, ...]
    ns: int
    gaps: int
    longest: int
    steps: int
    pinning: bool


def coinciding(p: Profile) -> Busy | None:
    """The thread whose work coincides with most of the long gaps in which the host was in no operator, if any."""
    r = p.rank
    gaps = _gaps(p)
    if not len(gaps):
        return None
    columns = (r.frames, r.ops, r.calls)
    threads = np.unique(np.concatenate([c["thread"] for c in columns]))
    found = []
    for thread in np.setdiff1d(threads, p.activity.threads).tolist():
        work = _work(p, int(thread))
        mine = gaps.overlap(work)
        inside = mine.total / gaps.total
        # Work that goes on all the time coincides with everything.
        outside = (work.total - mine.total) / max(1, _span(p) - gaps.total)
        if inside >= MOST and outside < inside / 2:
            found.append(_busy(p, int(thread), mine))
    return max(found, key=lambda b: b.ns, default=None)


def stalled(p: Profile, share: float) -> Cover:
    """The idle time that coincides with another thread's work, if it is this share of the judged steps."""
    busy = coinciding(p)
    if busy is None or p.share(busy.ns) < share:
        return Cover.empty()
    return _gaps(p).overlap(_work(p, busy.thread))


def _gaps(p: Profile) -> Cover:
    """Long idle gaps of judged steps in which no driving thread was in anything that the trace names."""
    covers = covers_of(p.rank, p.activity)
    taken = Cover.empty().union(*covers.values())
    free = Cover(p.steps.start, p.steps.end).minus(taken)
    long = free.ends - free.starts >= LONG
    return Cover(free.starts[long], free.ends[long])


def _span(p: Profile) -> int:
    low, high = p.rank.window
    return high - low


def _work(p: Profile, thread: int) -> Cover:
    """What a thread did, without its waits."""
    r = p.rank
    parts = []
    for columns in (r.frames, r.ops, r.calls):
        rows = columns["thread"] == thread
        parts.append(Cover.of(columns["start"][rows], columns["end"][rows]))
    waiting = (r.frames["thread"] == thread) & _waits(p)
    return parts[0].union(*parts[1:]).minus(Cover.of(r.frames["start"][waiting], r.frames["end"][waiting]))


def _waits(p: Profile) -> Mask:
    wanted = [n for n, f in p.rank.frame_names.items() if _last_word(f.function) in _WAITING]
    return np.isin(p.rank.frames["name"], np.array(wanted, np.int64))


def _last_word(function: str) -> str:
    """`acquire` of `<method 'acquire' of '_thread.lock' objects>` and of `<built-in method acquire of ...>`."""
    if not function.startswith("<"):
        return function.rpartition(".")[2]
    words = function.strip("<>").replace("'", " ").split()
    if "method" in words and len(words) > words.index("method") + 1:
        return words[words.index("method") + 1]
    return words[-1] if words else ""


def _busy(p: Profile, thread: int, mine: Cover) -> Busy:
    r = p.rank
    names: dict[str, int] = {}
    for columns in (r.calls, r.ops, r.frames):
        rows = np.flatnonzero(columns["thread"] == thread)
        rows = rows[mine.within(columns["start"][rows], columns["end"][rows]) > 0]
        for name in p.top_names(columns, rows, 2):
            names.setdefault(name, len(names))
    pinning = any(_PINNING in n for n in (r.trace.names[int(i)] for i in _names_on(p, thread)))
    return Busy(
        thread, _label(p, thread), tuple(names)[:4], mine.total, len(mine), int((mine.ends - mine.starts).max()),
        len(np.unique(p.steps.of(mine.starts))), pinning,
    )  # fmt: skip


def _names_on(p: Profile, thread: int) -> list[int]:
    frames = p.rank.frames
    names: list[int] = np.unique(frames["name"][frames["thread"] == thread]).tolist()
    return names


def _label(p: Profile, thread: int) -> str:
    """The thread's name as the trace's metadata gives it, else its number."""
    labels = p.rank.kind("label")
    told = [p.trace.text(int(n)) for n in labels["name"][labels["thread"] == thread].tolist()]
    number = str(p.trace.threads[thread])
    # Kineto writes `thread 388 (python)` where the system knows no better.
    return next((t for t in told if isinstance(t, str) and not t.startswith("thread ")), number)
