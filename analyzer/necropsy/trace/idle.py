"""Gaps in which the device ran nothing, and what the host did in them."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from necropsy.trace.intervals import Cover
from necropsy.trace.nesting import NONE
from necropsy.trace.partition import IDLE, covers_of
from necropsy.trace.profile import Profile
from necropsy.trace.rank import Rows

# Work below which idle time says nothing: a few kernels are no program (number of kernels in the judged steps).
KERNELS: Final = 50
# Without steps, the part of the window from the first to the last work below which its edges are what is idle.
SPANNED: Final = 0.8
# A kernel cannot begin before its launch. Of so many that do, by more than SKEW ns, host and device have two clocks.
SKEWED: Final = 0.05
SKEW: Final = 10_000

STALLED: Final = 0.05  # of the steps, from which another thread's work is told of
LONG: Final = 1_000_000  # ns of the host's own in a gap from which it is a bubble (nsys-ai), not a late launch


class Gaps(Struct, frozen=True):
    """Gaps between work in judged steps.

    `call` is the row of the call that submitted the work behind the gap (-1: unknown),
    `called` its begin and `submitted` its end, within the gap; `own` the ns that are the
    host's and nobody else's: dispatching and Python, without what follows from waits.
    """

    start: Rows
    end: Rows
    call: Rows
    called: Rows
    submitted: Rows
    own: Rows

    @property
    def length(self) -> Rows:
        """Nanoseconds of each."""
        return self.end - self.start


def judgeable(p: Profile, kernels: int = KERNELS) -> bool:
    """Whether idle time and launches of this trace tell of the program; `kernels`: how many it must have."""
    if p.cpu_only or p.graphs or not p.judged or skewed(p):
        return False
    if int(p.in_steps(p.rank.kernels["start"]).sum()) < kernels:
        return False
    if p.steps.how != "window":
        return True
    busy = p.rank.busy
    return bool(busy.ends[-1] - busy.starts[0] >= SPANNED * p.judged)


def skewed(p: Profile) -> bool:
    """Whether kernels seem to begin before their launches."""
    r = p.rank
    call = r.launch_of(r.kernels)
    known = call >= 0
    if not known.any():
        return False
    early = r.kernels["start"][known] < r.calls["start"][call[known]] - SKEW
    return float(early.mean()) > SKEWED


def covers(p: Profile) -> dict[str, Cover]:
    """Bucket -> its cover, as in the partition; without `Python`."""
    if "covers" not in p.memo:
        p.memo["covers"] = covers_of(p.rank, p.activity)
    found: dict[str, Cover] = p.memo["covers"]
    return found


def host_idle(p: Profile) -> Cover:
    """Judged time in which nothing ran while the host dispatched, waited or was in Python.

    Without the steps of optimizers that loop over parameters, which FUS006 tells with their idle time.
    """
    from necropsy.trace.optimizers import claimed

    if "host idle" not in p.memo:
        others = [c for b, c in covers(p).items() if b not in ("dispatching", "synchronising")]
        steps = Cover.of(p.steps.start, p.steps.end)
        p.memo["host idle"] = steps.minus(claimed(p).union(*others))
    found: Cover = p.memo["host idle"]
    return found


def own_idle(p: Profile) -> Cover:
    """Of that, what neither follows from a wait nor coincides with another thread's work."""
    from necropsy.trace.threads import stalled
    from necropsy.trace.waiting import idle_after

    if "own idle" not in p.memo:
        own = host_idle(p).minus(covers(p)["synchronising"]).minus(idle_after(p))
        p.memo["own idle"] = own.minus(stalled(p, STALLED))
    found: Cover = p.memo["own idle"]
    return found


def gaps_of(p: Profile) -> Gaps:
    """The gaps that begin in judged steps and lie between work."""
    if "gaps" not in p.memo:
        p.memo["gaps"] = _gaps(p)
    found: Gaps = p.memo["gaps"]
    return found


def _gaps(p: Profile) -> Gaps:
    busy = p.rank.busy
    start, end = busy.ends[:-1], busy.starts[1:]
    mine = p.in_steps(start) & p.in_steps(np.maximum(end - 1, start))
    start, end = start[mine], end[mine]
    call = _call_behind(p, end)
    calls = p.rank.calls
    known = np.maximum(call, 0)
    called = np.where(call >= 0, calls["start"][known] if len(calls) else end, end)
    submitted = np.where(call >= 0, calls["end"][known] if len(calls) else end, end)
    return Gaps(
        start, end, call, np.clip(called, start, end), np.clip(submitted, start, end), own_idle(p).within(start, end)
    )


def _call_behind(p: Profile, begins: Rows) -> Rows:
    """The call that submitted the work that begins at each time, or -1."""
    r = p.rank
    found = np.full(len(begins), NONE, np.int64)
    for work in (r.kernels, r.copies, r.memsets):
        if len(work):
            at = np.minimum(np.searchsorted(work["start"], begins), len(work) - 1)
            call = np.where(work["start"][at] == begins, r.launch_of(work)[at], NONE)
            found = np.where(found >= 0, found, call)
    return found


def in_most_steps(p: Profile, times: Rows, weight: Rows, share: float) -> bool:
    """Whether the weights (ns) at these times make up this share of most judged steps."""
    step = p.steps.of(times)
    ns = np.bincount(step[step >= 0], weights=weight[step >= 0], minlength=len(p.steps))
    return bool((ns >= share * p.steps.length).sum() * 2 > len(p.steps))


def idle_share(p: Profile) -> float:
    """Part of the judged steps in which the device ran nothing."""
    return p.partition.idle / p.judged if p.judged else 0.0


def story(p: Profile, most: int = 3, least: float = 0.01) -> list[tuple[str, int]]:
    """(bucket, ns) of the idle time, the largest first."""
    parts = [(b, p.partition.total(b)) for b in IDLE]
    return sorted((x for x in parts if p.share(x[1]) >= least), key=lambda x: -x[1])[:most]
