"""A trace ready to be judged: its steps, where they went, and the traps that forbid judgements.

Rules receive the `Traces` table, ask it for `profiles`, and each profile for columns,
links and groups. All costs are of the judged steps only, so that shares are of their time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from necropsy_parsers.records import Anchor, Origin
from necropsy_parsers.trace.columns import Columns
from necropsy_parsers.trace.model import Trace

from necropsy.finding import Place, Rests
from necropsy.provenance.dynamo import plain_function
from necropsy.trace.activity import HostActivity
from necropsy.trace.nesting import NONE
from necropsy.trace.partition import Partition, partition_of
from necropsy.trace.rank import Mask, RankTrace, Rows
from necropsy.trace.steps import Steps, steps_of

GRAPH_LAUNCHES: Final = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")
STREAM_CAPTURES: Final = ("cudaStreamBeginCapture", "hipStreamBeginCapture")
REPLAYED: Final = 0.2  # of the device's time from which a trace is one of replays

# Steps at the recording's edges that are shorter than this part of the median are what it cut, unless their
# optimizer stepped.
WHOLE: Final = 0.5

MARKED: Final = "marked while it ran"  # how a place is known that a mark of a capture tells

# Part of the steps' time by which the device must be late at their end to be told by its own pace.
BEHIND: Final = 0.5


class Moments(Rests):
    """Moments (ns) inside calls of the user's functions (rows of frames) from which a place follows, with weights.

    `culprit` says whether a statement that does it is what to change. Of a slow kernel it is
    not: a module's size, a layout or a precision is chosen elsewhere. `kernels` are rows of the
    kernels that the place is about, of which generated code may know more.
    """

    def __init__(
        self, profile: Profile, frames: Rows, times: Rows, ns: Rows, culprit: bool = True, kernels: Rows | None = None
    ) -> None:
        self.profile, self.frames, self.times, self.ns, self.culprit = profile, frames, times, ns, culprit
        self.kernels = kernels


class Site(Struct, frozen=True):
    """A user's function and what was seen in it: rows of some kind, their number and their nanoseconds.

    `place` is None where no Python frame of the user's was recorded.
    """

    place: Place | None
    rows: Rows
    ns: int

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def blameless(self, kernels: Rows | None = None) -> Site:
        """The site for a claim that leaves it open which statement is to be changed, perhaps about some kernels."""
        place = self.place
        if place is None or not isinstance(m := place.rests, Moments):
            return self
        rests = Moments(m.profile, m.frames, m.times, m.ns, False, m.kernels if kernels is None else kernels)
        return Site(replace(place, rests=rests), self.rows, self.ns)


class Profile:
    """One process's trace: links (`rank`), steps, partition, host activity."""

    def __init__(self, trace: Trace) -> None:
        self.rank = RankTrace(trace)
        self.trace = trace
        self.input = trace.anchor.input
        self.origin: Origin = trace.origin
        self.seq = trace.seq
        self.memo: dict[str, Any] = {}  # what topics worked out of this trace, for their several rules

    @property
    def ranks(self) -> tuple[int, ...]:
        """The rank as a finding carries it."""
        return () if self.origin.rank is None else (self.origin.rank,)

    def anchor(self, text: str = "") -> Anchor:
        """The trace as evidence, with what to look for in it."""
        return Anchor(self.input, 0, 0, 1, text)

    # -- steps ----------------------------------------------------------------

    @cached_property
    def all_steps(self) -> Steps:
        """Every step, those that the recording cut included."""
        return steps_of(self.rank)

    @cached_property
    def steps(self) -> Steps:
        """The steps that are judged: without those at the edges that the recording cut.

        A short one between others is a fact about the program: every second step may save
        a checkpoint.
        """
        steps = self.all_steps
        if len(steps) < 2:
            return steps
        long = np.flatnonzero(steps.length >= WHOLE * float(np.median(steps.length)))
        whole = np.zeros(len(steps), np.bool_)
        whole[long[0] : long[-1] + 1] = True
        if steps.how == "annotation":
            for columns in (self.rank.annotations, self.rank.ops):
                ends = columns["end"][self.rank.where(columns, "Optimizer.step#")]
                whole[steps.of(ends)[steps.of(ends) >= 0]] = True
        return Steps(steps.start[whole], steps.end[whole], steps.number[whole], steps.how, steps.word)

    @cached_property
    def pace(self) -> Steps:
        """The judged steps as the device went through them, where it runs behind the host; else as they are.

        A host that never waits is soon a queue ahead (1,024 launches), and its steps are as
        short as launching takes. The device's step then lasts from the end of what was
        submitted before to the end of what was submitted in it.
        """
        steps = self.steps
        done = self._finished
        if steps.how == "window" or not len(steps) or not len(done):
            return steps
        if int(done[-1]) - int(steps.end[-1]) <= BEHIND * steps.total:
            return steps
        apart = done[1:] > done[:-1]
        if not apart.any():
            return steps
        return Steps(done[:-1][apart], done[1:][apart], steps.number[apart], steps.how, steps.word)

    @cached_property
    def _finished(self) -> Rows:
        """When the device had finished what was submitted before the first step, in it, in the second, ..."""
        r = self.rank
        ends, begun = [], []
        for work in (r.kernels, r.copies, r.memsets):
            call = r.launch_of(work)
            ends.append(work["end"][call >= 0])
            begun.append(r.calls["start"][call[call >= 0]])
        end, start = np.concatenate(ends), np.concatenate(begun)
        if not len(end):
            return np.empty(0, np.int64)
        order = np.argsort(start, kind="stable")
        latest = np.maximum.accumulate(end[order])
        edges = np.concatenate((self.steps.start[:1], self.steps.end))
        at = np.searchsorted(start[order], edges, "left") - 1
        # Nothing known from before the first step: its first work begins when the device gets to it.
        first = int(end.min()) if at[0] < 0 else 0
        return np.where(at >= 0, latest[np.maximum(at, 0)], first)

    @cached_property
    def activity(self) -> HostActivity:
        """What the host did."""
        return HostActivity(self.rank)

    @cached_property
    def partition(self) -> Partition:
        """Where the judged steps went."""
        return partition_of(self.rank, self.steps, self.activity)

    @property
    def judged(self) -> int:
        """Nanoseconds of the judged steps."""
        return self.steps.total

    def share(self, ns: int | float) -> float:
        """Part of the judged steps' time."""
        return float(ns) / self.judged if self.judged else 0.0

    def per_step(self, amount: int | float) -> float:
        """An amount of all judged steps for one of them."""
        return float(amount) / max(1, len(self.steps))

    def in_steps(self, times: Rows) -> Mask:
        """Which times lie in judged steps."""
        return self.steps.of(times) >= 0

    @property
    def step_word(self) -> str:
        """`step` or, where there are none, `profiled window`."""
        return "profiled window" if self.steps.how == "window" else "step"

    # -- traps ----------------------------------------------------------------

    @cached_property
    def cpu_only(self) -> bool:
        """Whether no work of a device was recorded."""
        return not self.rank.has_gpu

    @cached_property
    def graph_launches(self) -> Rows:
        """Rows of the calls that replay a CUDA graph."""
        return np.flatnonzero(self.rank.where(self.rank.calls, GRAPH_LAUNCHES))

    @cached_property
    def captures(self) -> int:
        """How many CUDA graphs were captured while the profiler ran."""
        return int(self.rank.where(self.rank.calls, STREAM_CAPTURES).sum())

    @cached_property
    def replayed(self) -> float:
        """Part of the device's time that replayed CUDA graphs take (recorded kernels of replays only)."""
        r = self.rank
        total = part = 0
        for work in (r.kernels, r.copies, r.memsets):
            if not len(work):
                continue
            length = work["end"] - work["start"]
            replay = np.isin(r.launch_of(work), self.graph_launches) if len(self.graph_launches) else None
            total += int(length.sum())
            part += int(length[replay].sum()) if replay is not None else 0
        return part / total if total else 0.0

    @cached_property
    def graphs(self) -> bool:
        """Whether replays are so much of the trace that idle time and launches say nothing about the program.

        Profilers record a replay's kernels incompletely, and its one launch for all of
        them: false idle and false launch counts (TraceLens#728, HolisticTraceAnalysis#290).
        """
        return self.replayed >= REPLAYED or (len(self.graph_launches) > 0 and self.captures > 0)

    # -- groups ---------------------------------------------------------------

    def place(self, frame: int, how: str = "profiler") -> Place | None:
        """A Python frame as a place: the function, since a trace tells only where it begins; of a mark the line."""
        if frame < 0:
            return None
        name = self.rank.frame_names[int(self.rank.frames["name"][frame])]
        if name.mark:
            return Place(name.file, name.line, None, "", "", "line", MARKED)
        return Place(name.file, name.line, None, plain_function(name.function), "", "function", how)

    def placed(self, frames: Rows, times: Rows, ns: Rows | None = None) -> Place | None:
        """The function of the first of these frames, resting on moments in all of them."""
        place = self.place(int(frames[0])) if len(frames) else None
        weights = ns if ns is not None else np.zeros(len(frames), np.int64)
        return replace(place, rests=Moments(self, frames, times, weights)) if place is not None else None

    def sites(self, frames: Rows, rows: Rows, ns: Rows, times: Rows | None = None) -> list[Site]:
        """Rows grouped by the user's function, most nanoseconds first.

        `frames` are rows of the user's frames (-1: none), `rows` what to keep, `ns` the
        weight, `times` when each was asked for inside its frame, from which its statement
        can be told; all of the same length.
        """
        names = np.where(
            frames >= 0, self.rank.frames["name"][np.maximum(frames, 0)] if len(self.rank.frames) else 0, NONE
        )
        found = []
        for name in np.unique(names):
            mine = names == name
            first = int(frames[np.flatnonzero(mine)[0]])
            place = self.placed(frames[mine], times[mine], ns[mine]) if times is not None else self.place(first)
            found.append(Site(place, rows[mine], int(ns[mine].sum())))
        return sorted(found, key=lambda s: -s.ns)

    def work_sites(self, work: Columns, mask: Mask) -> list[Site]:
        """GPU work (kernels, copies) grouped by the user's function that submitted it."""
        rows = np.flatnonzero(mask)
        part = work.take(rows)
        frames = self.rank.user_frame_of_ops(self.rank.op_of(part))
        lost = np.flatnonzero(frames < 0)
        if len(lost):
            frames[lost] = self.rank.user_frame_of_calls(self.rank.launch_of(part.take(lost)))
        times = self.rank.times_of_calls(self.rank.launch_of(part), self.rank.op_of(part))
        sites = self.sites(frames, rows, part["end"] - part["start"], times)
        return [s.blameless(s.rows if work is self.rank.kernels else None) for s in sites]

    def op_sites(self, mask: Mask) -> list[Site]:
        """Operators grouped by the user's function that called them."""
        rows = np.flatnonzero(mask)
        length = self.rank.ops["end"][rows] - self.rank.ops["start"][rows]
        return self.sites(self.rank.user_frame_of_ops(rows), rows, length, self.rank.times_of_ops(rows))

    def call_sites(self, mask: Mask) -> list[Site]:
        """Calls of the runtime grouped by the user's function that led to them."""
        rows = np.flatnonzero(mask)
        length = self.rank.calls["end"][rows] - self.rank.calls["start"][rows]
        return self.sites(self.rank.user_frame_of_calls(rows), rows, length, self.rank.times_of_calls(rows))

    def top_names(self, columns: Columns, rows: Rows, most: int = 3) -> list[str]:
        """The commonest names of rows, by time."""
        if not len(rows):
            return []
        names, inverse = np.unique(columns["name"][rows], return_inverse=True)
        weight = np.bincount(inverse, weights=(columns["end"] - columns["start"])[rows] + 1.0)
        return [self.trace.names[int(names[i])] for i in np.argsort(-weight)[:most]]


def profiles_of(traces: Sequence[Any]) -> list[Profile]:
    """Profiles in order of rank, those without one last."""
    made = [_profile_of(t) for t in traces]
    return sorted(made, key=lambda p: (p.origin.rank is None, p.origin.rank or 0, p.seq))


_MADE: Final[WeakKeyDictionary[Trace, Profile]] = WeakKeyDictionary()


def _profile_of(trace: Trace) -> Profile:
    """One profile a trace, whichever table asks: its links are costly."""
    if trace not in _MADE:
        _MADE[trace] = Profile(trace)
    return _MADE[trace]


def milliseconds(values: NDArray[Any]) -> list[float]:
    """Ns as ms, rounded for people."""
    return [round(float(v) / 1e6, 3) for v in values]
