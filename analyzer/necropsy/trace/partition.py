"""Where each step went: an exact partition of its wall time, in nanoseconds.

The device comes first: computing, else communicating (exposed, since nothing computes),
else copying. What is left is idle, and is split by why nothing ran: the next work had been
submitted already (`queue`: launch latency and waits between kernels), or the host was
busy with something else.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy.trace.activity import HostActivity
from necropsy.trace.intervals import Cover, layered
from necropsy.trace.rank import RankTrace
from necropsy.trace.steps import Steps

Rows = NDArray[np.int64]

SHORT_GAP: Final = 30_000  # ns; a gap between kernels below this is the device's own (HTA's "kernel wait")

# Bucket -> what it means, in the order in which time is given away.
BUCKETS: Final = {
    "compute": "kernels ran",
    "communication": "a collective ran and nothing else",
    "copies": "a copy or memset ran and no kernel",
    "kernel gaps": "between kernels that were submitted in time, less than 30 us each",
    "queue": "work was submitted and had not begun",
    "data loading": "nothing ran; the host waited in its DataLoader",
    "compiling": "nothing ran; the host was compiling, or recording CUDA graphs",
    "saving": "nothing ran; the host wrote a checkpoint",
    "collecting garbage": "nothing ran; the host was in gc.collect()",
    "allocating": "nothing ran; the host asked the driver for memory, or gave it back",
    "synchronising": "nothing ran; the host waited for the device or had just done so",
    "dispatching": "nothing ran; the host was inside operators or launching them",
    "Python": "nothing ran; the host was between operators",
}
_HOST: Final = (
    "data loading", "compiling", "saving", "collecting garbage", "allocating", "synchronising", "dispatching",
)  # fmt: skip
IDLE: Final = tuple(b for b in BUCKETS if b not in ("compute", "communication", "copies"))
HOST_BUCKETS: Final = (*_HOST, "Python")


class Partition(Struct, frozen=True):
    """Bucket -> ns in each step. The buckets of a step add up to its length."""

    steps: Steps
    buckets: dict[str, Rows]

    def total(self, bucket: str) -> int:
        """Nanoseconds of a bucket in all steps."""
        return int(self.buckets[bucket].sum())

    def share(self, *buckets: str) -> float:
        """Part of the steps' time that the buckets take."""
        whole = self.steps.total
        return sum(self.total(b) for b in buckets) / whole if whole else 0.0

    @property
    def idle(self) -> int:
        """Nanoseconds in which the device ran nothing."""
        return sum(self.total(b) for b in IDLE)


def partition_of(rank: RankTrace, steps: Steps, activity: HostActivity) -> Partition:
    """The partition of each step's wall time."""
    covers = covers_of(rank, activity)
    buckets = {name: cover.within(steps.start, steps.end) for name, cover in covers.items()}
    # What no set holds is the host's own code, so that nothing is left over.
    buckets["Python"] = steps.length - sum(buckets.values())
    return Partition(steps, buckets)


def covers_of(rank: RankTrace, activity: HostActivity) -> dict[str, Cover]:
    """Disjoint sets of time for each bucket but `Python`, which is all other time."""
    device = layered([rank.computing, rank.communicating, rank.copying])
    gaps, queue = waits_of(rank)
    a = activity
    host = [a.loading, a.compiling, a.saving, a.collecting, a.allocating, a.waiting, a.dispatching]
    sets = layered([*device, gaps, queue, *host])
    return dict(zip(("compute", "communication", "copies", "kernel gaps", "queue", *_HOST), sets, strict=True))


def waits_of(rank: RankTrace) -> tuple[Cover, Cover]:
    """(short gaps, other waits) of the device while work had been submitted.

    A gap ends with the first work that begins after it; from the end of the call that
    submitted that work to its begin, the host is not the cause. A replayed graph is one
    call for all its kernels.
    """
    busy = rank.busy
    if len(busy) < 2:
        return Cover.empty(), Cover.empty()
    start, end = busy.ends[:-1], busy.starts[1:]
    submitted = _submission_of(rank, end)
    known = submitted >= 0
    start, end, submitted = start[known], end[known], np.maximum(submitted[known], start[known])
    submitted = np.minimum(submitted, end)
    short = (submitted == start) & (end - start < SHORT_GAP)
    return Cover.of(start[short], end[short]), Cover.of(submitted[~short], end[~short])


def _submission_of(rank: RankTrace, begins: Rows) -> Rows:
    """When the work that begins at each time was submitted: its call's end, or -1."""
    found = np.full(len(begins), -1, np.int64)
    for work in (rank.kernels, rank.copies, rank.memsets):
        if not len(work):
            continue
        at = np.minimum(np.searchsorted(work["start"], begins), len(work) - 1)
        here = work["start"][at] == begins
        call = rank.launch_of(work)[at]
        known = here & (call >= 0)
        # Begun before its call returned: submitted at the begin at the latest.
        ends = rank.calls["end"][np.maximum(call, 0)] if len(rank.calls) else np.zeros(len(begins), np.int64)
        found = np.where(known & (found < 0), ends, found)
    return found
