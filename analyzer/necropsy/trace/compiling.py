"""Compilations inside the profiled steps, recordings of CUDA graphs, and graph breaks that resumed functions show.

Dynamo compiles a function when it is called: the caller is on the stack, and the function
itself runs right behind the compilation. `compile_id` (frame/version, torch 2.6 on) stands
on ranges named `..._data: ..., compile_id=4/7`.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from msgspec import Struct

from necropsy.finding import Place
from necropsy.provenance.dynamo import plain_function, resumed_at
from necropsy.trace.intervals import Cover
from necropsy.trace.nesting import NONE, nearest
from necropsy.trace.partition import covers_of
from necropsy.trace.profile import Profile
from necropsy.trace.rank import Rows

SHORT: Final = 1_000_000  # ns; cache look-ups and other marks of the compiler that are no compilation
PROMPT: Final = 5_000_000  # ns between a compilation and the call that it was for

_ID: Final = re.compile(r"\bcompile_id=(\d{1,9})/(\d{1,9})(?!\d)")
# What a compilation of torch 2.6 on always runs, once its frame was not refused (torch/_dynamo/convert_frame.py).
_WORK: Final = ("bytecode_tracing", "compile_attempt_", "backend_compile", "outputgraph.call_user_compiler")
_WHOLE: Final = ("entire_frame_compile",)
_FRAME: Final = (("torch/_dynamo/convert_frame.py", ("_compile", "compile_inner", "_compile_inner")),)
# torch.compile's own wrapper since torch 2.8; before, it had the name that functions exempt from it have, too.
_WRAPPER: Final = (("torch/_dynamo/eval_frame.py", ("compile_wrapper",)),)
_REGION: Final = "Torch-Compiled Region"
_READS: Final = ("aten::item", "aten::is_nonzero", "aten::nonzero")
_METRICS: Final = (("torch/_dynamo/utils.py", ("record_compilation_metrics",)),)
_GRAPH_CALLS: Final = ("## Call CompiledFxGraph", "CompiledFunction")


class Compilation(Struct, frozen=True):
    """One compilation in a judged step.

    `start`, `end` and `ns` are the host's; `step` the index of the step; `place` the function that was compiled,
    where the trace shows it, `resumed` the line of the graph break behind which it goes on; `frame` and `version`
    its compile id (-1: not told); `refused` whether nothing was compiled.
    """

    start: int
    end: int
    step: int
    place: Place | None
    resumed: int | None = None
    frame: int = NONE
    version: int = NONE
    refused: bool = False

    @property
    def ns(self) -> int:
        """Nanoseconds of the host."""
        return self.end - self.start

    @property
    def id(self) -> str:
        """As torch's logs write it, or nothing."""
        return f"{self.frame}/{self.version}" if self.frame >= 0 else ""

    @property
    def again(self) -> bool:
        """Whether the function had been compiled before."""
        return self.version > 0


def compilations(p: Profile) -> list[Compilation]:
    """What was compiled in the judged steps, in order; recordings of CUDA graphs are not among it."""
    a, r = p.activity, p.rank
    rows = r.matching(r.ops, _WHOLE)
    # Pieces of one compilation (between which its callbacks leave the compiler) are one.
    whole = Cover.of(r.ops["start"][rows], r.ops["end"][rows])
    cover = a.compiling.minus(a.recording).union(whole)
    metrics = a.frames_of(_METRICS)
    kept = cover.ends - cover.starts
    # Recording a CUDA graph, too, ends with gathering metrics, under no other function of the compiler.
    kept -= Cover.of(r.frames["start"][metrics], r.frames["end"][metrics]).within(cover.starts, cover.ends)
    step = p.steps.of(cover.starts)
    found = np.flatnonzero((step >= 0) & (kept >= SHORT))
    return [_compilation(p, int(cover.starts[i]), int(cover.ends[i]), int(step[i])) for i in found]


def _compilation(p: Profile, start: int, end: int, step: int) -> Compilation:
    r = p.rank
    inside = (r.annotations["start"] >= start) & (r.annotations["start"] < end)
    # Its own id stands first; what it compiles on the way (a backward) has others.
    ids = [m for n in r.annotations["name"][inside].tolist() if (m := _ID.search(r.trace.names[int(n)]))]
    frame, version = (int(ids[0][1]), int(ids[0][2])) if ids else (NONE, NONE)
    during = (r.ops["start"] >= start) & (r.ops["start"] < end)
    whole, work = bool((r.matching(r.ops, _WHOLE) & during).any()), bool((r.matching(r.ops, _WORK) & during).any())
    row = _compiled(p, start, end, whole=whole)
    resumed = resumed_at(r.frame_names[int(r.frames["name"][row])].function) if row >= 0 else None
    return Compilation(start, end, step, plain(p.place(row)), resumed, frame, version, whole and not work)


def _compiled(p: Profile, start: int, end: int, *, whole: bool) -> int:
    """Row of the function that was compiled between two times, else of the one that caused it, or -1."""
    r = p.rank
    if not len(r.frames):
        return NONE
    around = int(r.frame_at(np.array([r.main_thread], np.int32), np.array([start]))[0])
    caller = int(r.user_frame[around]) if around >= 0 else NONE
    during = (r.frames["start"] >= start) & (r.frames["start"] < end)
    if not whole and not (p.activity.frames_of(_FRAME) & during).any():
        return caller  # a backward pass, a Triton kernel
    last = end + PROMPT
    if caller >= 0:
        last = min(last, int(r.frames["end"][caller]))
    own = (r.user_frame == np.arange(len(r.frames))) & (r.frames["thread"] == r.main_thread)
    rows = np.flatnonzero(own & (r.frames["start"] >= end) & (r.frames["start"] < last))
    return int(rows[np.argmin(r.frames["start"][rows])]) if len(rows) else caller


def plain(place: Place | None) -> Place | None:
    """A place whose function has the name that the user gave it."""
    if place is None:
        return None
    return Place(place.file, place.line, None, plain_function(place.function), "", place.exactness, place.how)


def given_up(p: Profile, found: list[Compilation]) -> Compilation | None:
    """The last try on a function that had been compiled too often: refused, with no other behind it.

    At least one whole step must follow, which is what shows that it stays uncompiled.
    """
    for c in reversed(found):
        if c.refused and c.again and c.step < len(p.steps) - 1:
            later = any(o.frame == c.frame and o.step > c.step for o in found)
            return None if later else c
    return None


def split(p: Profile, found: list[Compilation]) -> tuple[int, int]:
    """(compiling, recording CUDA graphs): ns of the judged steps in which nothing ran; their sum is the bucket."""
    idle = covers_of(p.rank, p.activity)["compiling"]
    compiled = Cover.of(np.array([c.start for c in found], np.int64), np.array([c.end for c in found], np.int64))
    compiled = compiled.minus(p.activity.recording)
    ns = int(idle.overlap(compiled).within(p.steps.start, p.steps.end).sum())
    whole = p.partition.total("compiling")
    return (ns, whole - ns) if len(p.activity.recording) else (whole, 0)


def recorded(p: Profile) -> Rows:
    """Host ns of each judged step in which CUDA graphs were recorded."""
    return p.activity.recording.within(p.steps.start, p.steps.end)


def recorded_sizes(p: Profile) -> list[list[int]]:
    """Sizes of one input that differ between the recordings, in order; empty if none is known to differ."""
    r, cover = p.rank, p.activity.recording
    inside = p.in_steps(cover.starts) & (cover.ends - cover.starts >= SHORT)
    thread = np.full(int(inside.sum()), r.main_thread, np.int32)
    op = r.op_nest.innermost(thread, cover.starts[inside]) if len(r.ops) else np.empty(0, np.int64)
    dims = [d for o in op.tolist() if o >= 0 and isinstance(d := _dims(p, o), list)]
    width = min((len(d) for d in dims), default=0)
    for i in range(width):
        sizes = [d[i] for d in dims]
        if all(isinstance(s, list) and s and all(isinstance(n, int) for n in s) for s in sizes):
            distinct = list(dict.fromkeys(map(tuple, sizes)))
            if len(distinct) > 1:
                return [list(s) for s in distinct]
    return []


def _dims(p: Profile, op: int) -> object:
    """Sizes of the inputs of an operator, or of the nearest around it that has any."""
    r = p.rank
    while op >= 0:
        found = p.trace.text(int(r.ops["dims"][op]))
        if isinstance(found, list) and any(found):
            return found
        op = int(r.op_nest.parent[op])
    return None


class Break(Struct, frozen=True):
    """A graph break: its line, how often it was met in the judged steps, in how many, and idle ns around it."""

    place: Place
    count: int
    steps: int
    idle: int


def breaks(p: Profile) -> list[Break]:
    """Graph breaks of the judged steps, those around which the device is idle longest first."""
    r = p.rank
    names = {n: line for n, f in r.frame_names.items() if f.kind == "user" and (line := resumed_at(f.function))}
    rows = np.flatnonzero(np.isin(r.frames["name"], list(names)) & p.in_steps(r.frames["start"]))
    if not len(rows):
        return []
    idle = _idle_around(p, r.frames["start"][rows])
    found = []
    for name in np.unique(r.frames["name"][rows]):
        mine = r.frames["name"][rows] == name
        f = r.frame_names[int(name)]
        place = Place(
            f.file, names[int(name)], None, plain_function(f.function), "", "line", "name of resumed function"
        )
        steps = np.unique(p.steps.of(r.frames["start"][rows[mine]]))
        found.append(Break(place, int(mine.sum()), len(steps), int(idle[mine].sum())))
    return sorted(found, key=lambda b: -b.idle)


def _idle_around(p: Profile, times: Rows) -> Rows:
    """Ns in which the host kept the device idle between the graph before each time and the one behind it."""
    r = p.rank
    graphs = [
        (c["start"][m], c["end"][m])
        for c in (r.annotations, r.ops)
        if (m := r.where(c, _GRAPH_CALLS) & (c["thread"] == r.main_thread)).any()
    ]
    if not graphs:
        return np.zeros(len(times), np.int64)
    calls = Cover.of(np.concatenate([s for s, _ in graphs]), np.concatenate([e for _, e in graphs]))
    step = np.maximum(p.steps.of(times), 0)
    before, behind = np.searchsorted(calls.ends, times, "right") - 1, np.searchsorted(calls.starts, times, "left")
    low = np.where(before >= 0, calls.ends[np.maximum(before, 0)], times)
    high = np.where(behind < len(calls), calls.starts[np.minimum(behind, len(calls) - 1)], times)
    low, high = np.maximum(low, p.steps.start[step]), np.minimum(high, p.steps.end[step])
    covers = covers_of(p.rank, p.activity)
    other = p.rank.busy.union(*(covers[b] for b in ("kernel gaps", "queue", "data loading", "compiling")))
    spent = np.maximum(high - low - other.within(low, high), 0)
    # Breaks between the same two graphs share their time.
    _, same, count = np.unique(low, return_inverse=True, return_counts=True)
    shared: Rows = spent // count[same]
    return shared


def recording_places(p: Profile) -> list[Place | None]:
    """The user's functions from which CUDA graphs were recorded in judged steps, longest first."""
    r, cover = p.rank, p.activity.recording
    inside = p.in_steps(cover.starts) & (cover.ends - cover.starts >= SHORT)
    start, end = cover.starts[inside], cover.ends[inside]
    frame = r.frame_at(np.full(len(start), r.main_thread, np.int32), start)
    user = np.where(frame >= 0, r.user_frame[np.maximum(frame, 0)] if len(r.frames) else NONE, NONE)
    return [plain(s.place) for s in p.sites(user, np.arange(len(start)), end - start)]


class Eager(Struct, frozen=True):
    """A function that torch.compile was given and that runs without compilation; `pieces` of it a call are compiled.

    `reads` is whether it reads values of tensors itself, which breaks graphs.
    """

    place: Place
    steps: int
    count: int
    pieces: float
    reads: bool


def eager_functions(p: Profile) -> list[Eager]:
    """Functions called right under torch.compile's wrapper that no compiled region encloses."""
    r = p.rank
    wrapper = p.activity.frames_of(_WRAPPER)
    if not wrapper.any():
        return []
    parent = r.frame_nest.parent
    within = nearest(parent, wrapper)
    rows = np.flatnonzero((r.user_frame == np.arange(len(r.frames))) & (within >= 0) & p.in_steps(r.frames["start"]))
    rows = rows[r.frames["thread"][rows] == r.main_thread]
    outer = np.where(parent[rows] >= 0, r.user_frame[np.maximum(parent[rows], 0)], NONE)
    inside = (outer >= 0) & (r.frames["start"][np.maximum(outer, 0)] >= r.frames["start"][within[rows]])
    rows = rows[~inside]
    at = r.where(r.ops, _REGION) & (r.ops["thread"] == r.main_thread)
    regions = Cover.of(r.ops["start"][at], r.ops["end"][at])
    eager = ~regions.holds(r.frames["start"][rows])
    # Without operators the ranges of compiled regions were not recorded, either.
    ops = Cover.of(r.ops["start"], r.ops["end"])
    eager &= ops.within(r.frames["start"][rows], r.frames["end"][rows]) > 0
    found = []
    for name in np.unique(r.frames["name"][rows]):
        mine = r.frames["name"][rows] == name
        around = within[rows[mine]]
        whole = (r.frames["end"] - r.frames["start"])[around].sum()
        part = (r.frames["end"] - r.frames["start"])[rows[mine]].sum()
        if eager[mine].all() and part >= whole / 2:  # and not a hook or a property beside the function itself
            found.append(_eager(p, rows[mine], regions))
    return [e for e in found if 2 * e.steps > len(p.steps)]


def _eager(p: Profile, rows: Rows, regions: Cover) -> Eager:
    r = p.rank
    start, end = r.frames["start"][rows], r.frames["end"][rows]
    pieces = np.searchsorted(regions.starts, end) - np.searchsorted(regions.starts, start)
    reads = r.where(r.ops, _READS, exact=True) & (r.ops["thread"] == r.main_thread)
    reads &= Cover.of(start, end).minus(regions).holds(r.ops["start"])
    place = p.place(int(rows[0]))
    assert place is not None
    return Eager(place, len(np.unique(p.steps.of(start))), len(rows), float(pieces.mean()), bool(reads.any()))
