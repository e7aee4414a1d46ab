"""nn.DataParallel, gloo on a job with GPUs, barriers, searches for unused parameters, and stages of a pipeline."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from necropsy_parsers.trace.columns import Columns

from necropsy.finding import Place
from necropsy.trace.collectives import BETWEEN_TWO, collectives_of, on_cpu
from necropsy.trace.fleet import Fleet
from necropsy.trace.intervals import Cover
from necropsy.trace.overlap import issuers
from necropsy.trace.profile import Profile
from necropsy.trace.rank import Mask, Rows

MOST: Final = 0.5  # of the steps in which something must happen to be told

_DATA_PARALLEL: Final = "torch/nn/parallel/data_parallel.py"
_MOVING: Final = ("torch/nn/parallel/replicate.py", "torch/nn/parallel/scatter_gather.py")


class Replicas(Struct, frozen=True):
    """DataParallel in a trace: devices, calls, ns on the main thread that move models and batches, the call's place."""

    devices: int
    calls: int
    ns: int
    place: Place | None


def replicas(p: Profile) -> Replicas | None:
    """DataParallel over several devices in most judged steps, or None."""
    r = p.rank
    rows = np.flatnonzero(
        r.where(r.annotations, "DataParallel.forward", exact=True) & p.in_steps(r.annotations["start"])
    )
    columns = r.annotations
    if not len(rows):
        rows, columns = np.flatnonzero(_frames_of(p, (_DATA_PARALLEL,), "forward")), r.frames
    devices = np.unique(r.kernels["device"][r.kernels["device"] >= 0])
    steps = np.unique(p.steps.of(columns["start"][rows]))
    if len(devices) < 2 or (steps >= 0).sum() < max(1, MOST * len(p.steps)):
        return None
    moving = _frames_of(p, _MOVING) & (r.frames["thread"] == r.main_thread)
    inside = Cover.of(r.frames["start"][moving], r.frames["end"][moving])
    sites = p.sites(_user_at(p, columns, rows), rows, columns["end"][rows] - columns["start"][rows])
    place = next((s.place for s in sites if s.place is not None), None)
    return Replicas(len(devices), len(rows), int(inside.within(p.steps.start, p.steps.end).sum()), place)


def _frames_of(p: Profile, files: tuple[str, ...], function: str = "") -> Mask:
    r = p.rank
    names = [
        n for n, f in r.frame_names.items()
        if f.file.replace("\\", "/").endswith(files) and function in ("", f.function.rpartition(".")[2])
    ]  # fmt: skip
    return np.isin(r.frames["name"], np.array(names, np.int64))


def _user_at(p: Profile, columns: Columns, rows: Rows) -> Rows:
    """The user's frames around rows of some kind."""
    r = p.rank
    frame = r.frame_at(columns["thread"][rows], columns["start"][rows])
    return np.where(frame >= 0, r.user_frame[np.maximum(frame, 0)] if len(r.frames) else -1, -1)


class OnCpu(Struct, frozen=True):
    """Gradients exchanged by the CPU: bytes in all judged steps, ns with the device idle meanwhile, backend, place."""

    backend: str
    bytes: int
    ns: int
    place: Place | None


def cpu_exchange(p: Profile, least: int) -> OnCpu | None:
    """Collectives on the CPU of a process with a GPU, of at least so many bytes in most judged steps."""
    found = on_cpu(p)
    if p.cpu_only or not len(found) or not len(p.steps):
        return None
    size = np.array([max(0, s.bytes) for s in found.signatures], np.int64)[found.what]
    step = p.steps.of(found.start)
    inside = step >= 0
    each = np.bincount(step[inside], weights=size[inside], minlength=len(p.steps))
    if (each >= least).mean() <= MOST:
        return None
    r = p.rank
    idle = Cover.of(found.start[inside], found.end[inside]).minus(r.busy)
    ops = np.flatnonzero(r.where(r.ops, "c10d::") & p.in_steps(r.ops["start"]))
    sites = p.sites(r.user_frame_of_ops(ops), ops, r.ops["end"][ops] - r.ops["start"][ops], r.times_of_ops(ops))
    place = next((s.place for s in sites if s.place is not None), None)
    backend = found.signatures[int(found.what[0])].group
    return OnCpu(backend, int(each.sum()), int(idle.within(p.steps.start, p.steps.end).sum()), place)


class Barriers(Struct, frozen=True):
    """Barriers in the judged steps: their number, ns that host and device spend in them doing nothing, place."""

    count: int
    ns: int
    steps: float
    place: Place | None


def barriers(p: Profile) -> Barriers | None:
    """Calls of `barrier` on the main thread in the judged steps, or None."""
    r = p.rank
    rows = np.flatnonzero(r.where(r.ops, "c10d::barrier") & p.in_steps(r.ops["start"]))
    if not len(rows):
        return None
    columns: Columns = r.ops
    start, end = columns["start"][rows], columns["end"][rows]
    # The frame of torch.distributed.barrier holds the wait, too; the operator only enqueues.
    frames = np.flatnonzero(_frames_of(p, ("torch/distributed/distributed_c10d.py",), "barrier"))
    cover = Cover.of(start, end).union(Cover.of(r.frames["start"][frames], r.frames["end"][frames]))
    nothing = cover.minus(r.computing) if not p.cpu_only else cover
    steps = p.steps.of(start)
    sites = p.sites(r.user_frame_of_ops(rows), rows, end - start, r.times_of_ops(rows))
    place = next((s.place for s in sites if s.place is not None), None)
    waited = int(nothing.within(p.steps.start, p.steps.end).sum())
    return Barriers(len(rows), waited, len(np.unique(steps)) / len(p.steps), place)


class Searches(Struct, frozen=True):
    """DDP's searches for unused parameters: host ns in all judged steps, part of them that have one, place."""

    ns: int
    steps: float
    place: Place | None


def unused_searches(p: Profile) -> Searches | None:
    """Searches in the judged steps (torch/csrc/distributed/c10d/reducer.cpp names the range), or None."""
    r = p.rank
    name = "torch.distributed.ddp.reducer::search_unused_parameters"
    rows = np.flatnonzero(r.where(r.ops, name, exact=True) & p.in_steps(r.ops["start"]))
    if not len(rows) or p.steps.how == "window" or len(p.steps) < 2:
        return None
    start, ns = r.ops["start"][rows], r.ops["end"][rows] - r.ops["start"][rows]
    # Asked for at a moment inside the call of the model: the frames around it tell no statement of their own.
    sites = p.sites(r.user_frame_of_ops(rows), rows, ns)
    place = next((s.place for s in sites if s.place is not None), None)
    return Searches(int(ns.sum()), len(np.unique(p.steps.of(start))) / len(p.steps), place)


class Stages(Struct, frozen=True):
    """Stages of a pipeline: ns of computing in a judged step by rank, and how many messages a step passes."""

    computing: dict[int, float]
    messages: float

    @property
    def slowest(self) -> int:
        """The rank that computes longest."""
        return max(self.computing, key=lambda r: self.computing[r])

    @property
    def others(self) -> float:
        """Mean of the other ranks."""
        return float(np.mean([ns for r, ns in self.computing.items() if r != self.slowest]))


def stages(fleet: Fleet) -> Stages | None:
    """The stages of a pipeline: ranks whose steps pass most messages between two, or None."""
    computing = {}
    messages = []
    for p in fleet.profiles:
        found = collectives_of(p)
        between = found.named(BETWEEN_TWO) & p.in_steps(found.start)
        if not found.device or between.sum() < 2 * len(p.steps) or p.replayed >= 0.2:
            return None
        messages.append(p.per_step(int(between.sum())))
        ns = p.rank.computing.within(p.steps.start, p.steps.end).sum()
        computing[int(p.origin.rank or 0)] = p.per_step(int(ns))
    return Stages(computing, float(np.mean(messages)))


class Exchanges(Struct, frozen=True):
    """Exchanges of all gradients in a step: forward passes that are followed by one, all-reduces a step, place."""

    passes: int
    exchanges: float
    place: Place | None


def exchanges(p: Profile) -> Exchanges | None:
    """DistributedDataParallel run several times a step with all gradients exchanged each time, or None."""
    r = p.rank
    forward = r.where(r.annotations, "DistributedDataParallel.forward", exact=True)
    rows = np.flatnonzero(forward & p.in_steps(r.annotations["start"]))
    started = r.ops["start"][r.where(r.ops, ("c10d::allreduce_", "record_param_comms"))]
    if not len(rows) or not len(started):
        return None
    begins = np.sort(r.annotations["start"][rows])
    passes = np.bincount(p.steps.of(begins), minlength=len(p.steps))
    times = int(np.median(passes))
    # All-reduces that the host started between one forward pass and the next (or the step's end).
    ends = np.append(begins[1:], p.steps.end[-1])
    ordered = np.sort(started)
    between = np.searchsorted(ordered, ends) - np.searchsorted(ordered, begins)
    usual = float(np.median(between))
    if times < 2 or usual < 1 or (between >= 0.8 * usual).mean() < 0.9:
        return None
    return Exchanges(times, usual * times, next((s.place for s in issuers(p)), None))
