"""Which kernels stand for the judged steps, where the device runs behind the host.

A host that submits faster than the device works is one or more steps ahead: in the time of
the judged steps the device then runs work that was submitted before the profiler started,
which has no operator. The kernels that were submitted in the judged steps are the same
work, and are taken instead.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from necropsy.trace.profile import Profile
from necropsy.trace.rank import Mask

LINKED: Final = 0.9  # of the kernels' time in the judged steps that must have operators to be judged itself


class Sample(Struct, frozen=True):
    """Kernels to judge, and what turns their nanoseconds into those of the judged steps (with its basis)."""

    kernels: Mask
    factor: float
    basis: str

    def scaled(self, ns: int | float) -> int:
        """Nanoseconds of kernels as nanoseconds of the judged steps."""
        return round(ns * self.factor)


def sample_of(p: Profile) -> Sample:
    """The kernels of a trace's judged steps."""
    if "sample" not in p.memo:
        p.memo["sample"] = _sample(p)
    found = p.memo["sample"]
    assert isinstance(found, Sample)
    return found


def _sample(p: Profile) -> Sample:
    r, k = p.rank, p.rank.kernels
    inside = p.in_steps(k["start"]) & ~r.collective if len(k) else np.zeros(0, np.bool_)
    length = k["end"] - k["start"]
    call = r.launch_of(k)
    whole = int(length[inside].sum())
    if not len(r.calls) or int(length[inside & (call >= 0)].sum()) >= LINKED * whole:
        return Sample(inside, 1.0, "measured")
    begun = np.where(call >= 0, r.calls["start"][np.maximum(call, 0)], -1)
    launched = (call >= 0) & p.in_steps(begun) & ~r.collective
    ran = int(length[launched].sum())
    if not ran:
        return Sample(inside, 1.0, "measured")
    computed = int(r.computing.within(p.steps.start, p.steps.end).sum())
    return Sample(launched, computed / ran, "estimated")
