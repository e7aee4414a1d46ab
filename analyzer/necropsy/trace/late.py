"""Launches that came when the device had run dry already, and other ways in which launching goes slowly."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from necropsy.trace.bubbles import in_bubbles
from necropsy.trace.idle import gaps_of
from necropsy.trace.partition import SHORT_GAP
from necropsy.trace.profile import Profile, Site
from necropsy.trace.rank import Mask, Rows
from necropsy.trace.repeats import claimed_calls

LAUNCHES: Final = (
    "cudaLaunchKernel", "cuLaunchKernel", "cudaLaunchCooperativeKernel", "hipLaunchKernel", "hipExtLaunchKernel",
    "hipModuleLaunchKernel", "hipExtModuleLaunchKernel",
)  # fmt: skip
SLOW_CALL: Final = 50_000  # ns a launch should not take (HTA)
DELAY: Final = 100_000  # ns from the launch to the begin on an idle device (HTA)
DEPENDENCY: Final = 1_500_000  # ns of that from which something else is waited for (HTA's critical path)
# How many times longer the host takes while it is recorded: small layers on torch 2.13, CPU time of the process;
# 1.5 without options, 2.1 to 2.7 with stacks, shapes or both.
SLOWED: Final = 1.5
SLOWED_BY_OPTIONS: Final = 2.7
_COMPILED: Final = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph", "Call CompiledFxGraph")


class Late(Struct, frozen=True):
    """Gaps that are there because the next launch came late; ns of all judged steps.

    `times` and `own` are of each gap; `remaining` is the part of the steps that would be idle
    if recording had made the host as slow as it may, `kernel` the mean length of a kernel,
    `calling` the time in launch calls.
    """

    ns: int
    remaining: float
    count: int
    launches: int
    kernel: float
    calling: int
    compiled: bool
    times: Rows
    own: Rows
    sites: list[Site]


class Delays(Struct, frozen=True):
    """Waits of submitted work on an idle device: rows of gaps and their ns."""

    rows: Rows
    ns: Rows

    @property
    def total(self) -> int:
        """Nanoseconds of all."""
        return int(self.ns.sum())


def launch_rows(p: Profile) -> Rows:
    """Calls that launch kernels, in judged steps."""
    return np.flatnonzero(p.rank.where(p.rank.calls, LAUNCHES) & p.in_steps(p.rank.calls["start"]))


def slow_launches(p: Profile) -> Mask:
    """Gaps in which the device waits for a launch call that takes long."""
    g = gaps_of(p)
    if not len(p.rank.calls):
        return np.zeros(len(g.start), np.bool_)
    known = np.maximum(g.call, 0)
    length = p.rank.calls["end"][known] - p.rank.calls["start"][known]
    inside = g.submitted - g.called  # the part of the gap in which the call runs
    slow = (g.call >= 0) & p.rank.where(p.rank.calls, LAUNCHES)[known] & (length >= SLOW_CALL)
    return slow & (inside * 2 >= g.own) & (g.own > 0)


def delays(p: Profile) -> tuple[Delays, Delays]:
    """(launch delays, waits for something else) of work that had been submitted."""
    g = gaps_of(p)
    ns = np.where(g.call >= 0, g.end - np.maximum(g.submitted, g.start), 0)
    short = (g.submitted <= g.start) & (g.length < SHORT_GAP)
    late = np.flatnonzero((ns >= DELAY) & ~short)
    long = ns[late] >= DEPENDENCY
    return Delays(late[~long], ns[late[~long]]), Delays(late[long], ns[late[long]])


def late_launches(p: Profile) -> Late:
    """What is left of the host's own idle time once pauses, loops and slow calls have theirs."""
    g = gaps_of(p)
    r = p.rank
    mine = (g.own > 0) & (g.called > g.start) & ~in_bubbles(p) & ~slow_launches(p)
    mine &= ~claimed_calls(p)[np.maximum(g.call, 0)] if len(r.calls) else False
    rows = np.flatnonzero(mine)
    own = g.own[rows]
    frames = r.user_frame_of_calls(g.call[rows])
    sites = [s for s in p.sites(frames, rows, own) if s.place is not None]
    launches = launch_rows(p)
    submitted = sum(int(p.in_steps(w["start"]).sum()) for w in (r.kernels, r.copies, r.memsets))
    in_steps = p.in_steps(r.kernels["start"])
    kernel = (r.kernels["end"] - r.kernels["start"])[in_steps]
    return Late(
        int(own.sum()), _remaining(p), len(rows), submitted, float(kernel.mean()) if len(kernel) else 0.0,
        int((r.calls["end"] - r.calls["start"])[launches].sum()), any(n.startswith(_COMPILED) for n in p.trace.names),
        g.start[rows], own, sites,
    )  # fmt: skip


def _remaining(p: Profile) -> float:
    """Part of the steps in which the device would still idle with a host that much faster."""
    heavy = bool(p.trace.meta.options & {"with_stack", "record_shapes"}) or len(p.rank.frames) > 0
    busy = int(p.rank.busy.within(p.steps.start, p.steps.end).sum())
    return max(0.0, 1.0 - (SLOWED_BY_OPTIONS if heavy else SLOWED) * p.share(busy))
