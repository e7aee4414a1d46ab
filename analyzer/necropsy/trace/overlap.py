"""How much of the collectives' time computing hides, and what of the rest is waiting for a late rank."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from necropsy.trace.collectives import collectives_of
from necropsy.trace.fleet import Fleet
from necropsy.trace.intervals import Cover
from necropsy.trace.profile import Profile, Site
from necropsy.trace.straggler import accused, waits_for

PAIRS: Final = frozenset({"send", "receive"})
LAYERS: Final = ("aten::embedding", "aten::linear", "aten::addmm", "aten::mm", "aten::matmul", "aten::convolution")
MOST_OF_BUCKET: Final = 0.9
ONE: Final = 0.8  # of the collectives' time: one that takes it leaves nothing to overlap in another order


class Communication(Struct, frozen=True):
    """Collectives of the judged steps of one rank, in ns.

    `total`: a collective ran; `exposed`: and nothing computed, though the next work had been
    submitted or the host waited (else it is the host that costs the time); `late`: of that,
    waiting for a rank that is reported for it; `computing`: kernels of the judged steps that ran
    while no collective did, which is what could hide more. `steps`: part of the steps in
    which the exposed time is above 1 %.
    """

    profile: Profile
    total: int
    exposed: int
    late: int
    computing: int
    steps: float
    several: bool

    @property
    def hidden(self) -> float:
        """Part of the collectives' time in which kernels computed."""
        return 1 - self.exposed / self.total if self.total else 1.0

    @property
    def own(self) -> int:
        """Exposed time that is not waiting for a late rank."""
        return self.exposed - self.late

    @property
    def hideable(self) -> int:
        """What perfect overlap could hide of it (an estimate: dependencies may forbid it)."""
        return min(self.own, self.computing)


def communication_of(p: Profile, late: Cover | None = None) -> Communication:
    """See the class. Time counts as the partition counts it."""
    steps = p.steps
    r = p.rank
    exposed = held_up(p)
    each = exposed.within(steps.start, steps.end)
    computing = r.computing.minus(joint(p))
    waited = late.overlap(exposed).within(steps.start, steps.end).sum() if late is not None else 0
    return Communication(
        p,
        int(joint(p).within(steps.start, steps.end).sum()),
        int(each.sum()),
        int(waited),
        int(computing.within(steps.start, steps.end).sum()),
        float((each > 0.01 * steps.length).mean()) if len(steps) else 0.0,
        _several(p),
    )


def _several(p: Profile) -> bool:
    found = collectives_of(p)
    step = p.steps.of(found.start)
    length = (found.end - found.start)[step >= 0]
    step = step[step >= 0]
    longest = np.zeros(len(p.steps), np.int64)
    np.maximum.at(longest, step, length)
    return bool(longest.sum() < ONE * length.sum())


def held_up(p: Profile) -> Cover:
    """When a collective ran, nothing computed, and that held something up.

    The next kernel that computes had been submitted, or the host waited for the device. In
    the rest of the exposed time the device would have had nothing to do without the
    collective, too.
    """
    if "held up" not in p.memo:
        r = p.rank
        bare = joint(p).minus(r.computing)
        work = np.flatnonzero(~r.collective)
        at = np.searchsorted(r.kernels["start"][work], bare.ends)
        submitted = np.full(len(bare), np.iinfo(np.int64).min)
        some = at < len(work)
        call = r.launch_of(r.kernels.take(work[at[some]])) if some.any() else np.empty(0, np.int64)
        known = np.flatnonzero(some)[call >= 0]
        submitted[known] = r.calls["end"][call[call >= 0]]
        ready = Cover.of(np.maximum(bare.starts, submitted), bare.ends)
        p.memo["held up"] = ready.union(bare.overlap(p.activity.waiting))
    found: Cover = p.memo["held up"]
    return found


def all_communication(profiles: Iterable[Profile], fleets: Sequence[Fleet]) -> list[list[Communication]]:
    """Of each job, and of each process without peers, the communication of its ranks."""
    found = []
    seen: set[int] = set()
    for fleet in fleets:
        seen |= {id(p) for p in fleet.profiles}
        found.append([communication_of(p, _late_covers(fleet, i)) for i, p in enumerate(fleet.profiles)])
    found += [[communication_of(p)] for p in profiles if id(p) not in seen]
    return found


def _late_covers(fleet: Fleet, waiting: int) -> Cover:
    """When one rank waited for those that are reported as late (with the defaults of that rule)."""
    suspects = [fleet.profiles.index(x.profile) for x, _ in accused(fleet)]
    return Cover.empty().union(*(waits_for(fleet, waiting, s) for s in suspects if s != waiting))


def least(ranks: Sequence[Communication]) -> Communication:
    """The rank with the smallest share of exposed time of its own.

    Collectives cost all ranks the same; what others have more of they spend in waiting, or
    have since they ran ahead and have nothing left to compute.
    """
    return min(ranks, key=lambda c: c.profile.share(c.own))


def joint(p: Profile) -> Cover:
    """When a collective of a whole group ran: messages between two are a pipeline's, and wait by design."""
    if "joint" not in p.memo:
        found = collectives_of(p)
        rows = ~found.named(PAIRS) if found.device else np.zeros(len(found), np.bool_)
        p.memo["joint"] = Cover.of(found.start[rows], found.end[rows])
    cover: Cover = p.memo["joint"]
    return cover


def issuers(p: Profile) -> list[Site]:
    """The user's functions from which collectives were started, longest first, those that are known.

    Of the whole recording: a device that lags some steps behind runs in the judged steps
    what was submitted before the recording began.
    """
    return [s for s in p.work_sites(p.rank.kernels, p.rank.collective) if s.place is not None]


def kinds_of(p: Profile, most: int = 3) -> list[str]:
    """The collectives that take longest in the judged steps: `all-reduce of 33.6 MB: 4.1 ms a step`."""
    from necropsy.trace.claim import ms

    found = collectives_of(p)
    inside = p.in_steps(found.start)
    length = np.where(inside, found.end - found.start, 0)
    by = np.bincount(found.what, weights=length, minlength=len(found.signatures))
    told: dict[tuple[str, int], float] = {}
    for i, s in enumerate(found.signatures):
        told[s.name, s.bytes] = told.get((s.name, s.bytes), 0.0) + float(by[i])
    ranked = sorted(told, key=lambda k: -told[k])[:most]
    return [f"{n}{size_words(b)}: {ms(p.per_step(told[n, b]))} a {p.step_word}" for n, b in ranked if told[n, b]]


def size_words(size: int) -> str:
    """` of 33.6 MB`, or nothing where the size is unknown."""
    if size < 0:
        return ""
    return f" of {size / 1e6:.3g} MB" if size >= 1e5 else f" of {size / 1e3:.3g} kB"


class Tensor(Struct, frozen=True):
    """A tensor whose gradient makes up most of a collective: its shape, the operator that takes it, where."""

    shape: list[int]
    operator: str
    site: Site


def large_tensor(p: Profile) -> Tensor | None:
    """The tensor that fills the collective that takes longest, where one does and shapes were recorded."""
    found = collectives_of(p)
    weight = np.bincount(found.what, weights=found.end - found.start, minlength=len(found.signatures))
    told = [i for i, s in enumerate(found.signatures) if s.elements_in > 0]
    ops = p.rank.ops
    layers = p.rank.where(ops, LAYERS, exact=True)
    if not told or not layers.any():
        return None
    elements = found.signatures[max(told, key=lambda i: weight[i])].elements_in
    for dims in np.unique(ops["dims"][layers]):
        for shape in p.trace.text(int(dims)) or []:
            if _fills(shape, elements):
                named = [s.blameless() for s in p.op_sites(layers & (ops["dims"] == dims)) if s.place is not None]
                if named:
                    return Tensor(shape, p.rank.named(ops, int(named[0].rows[0])), named[0])
    return None


def _fills(shape: object, elements: int) -> bool:
    # Of a bucket's elements: the rest may be biases and small layers.
    if not isinstance(shape, list) or len(shape) < 2 or not all(isinstance(n, int) for n in shape):
        return False
    return MOST_OF_BUCKET * elements <= math.prod(shape) <= elements
