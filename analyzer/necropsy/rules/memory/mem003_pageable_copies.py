"""Copies to the GPU come from pageable host memory

What it means
    The tensors lie in ordinary memory, which the GPU's copy engine cannot read. The driver
    copies them piece by piece into a pinned buffer of its own first: the transfer is
    slower, the host takes part in it, and `non_blocking=True` changes nothing.

Why it happens
    A DataLoader without `pin_memory=True`; tensors made from NumPy arrays or by
    `torch.stack`, `torch.cat` or a collate function after pinning; a batch whose type the
    loader does not know how to pin (a custom class needs a `pin_memory` method).

How to confirm
    The copies are called `Memcpy HtoD (Pageable -> Device)` in the trace; `x.is_pinned()`
    is False right before `.to(device)`.

How to fix
    `DataLoader(pin_memory=True)` and `.to(device, non_blocking=True)`, or one pinned
    buffer that is filled anew for each batch. Pinning costs a copy itself: do it in a
    worker or once, not with `x.pin_memory().to(...)` in the loop.

Limits
    Traces of ROCm write `Host` for both kinds of memory: nothing is claimed there. The
    cost is the time in which the device did nothing but copy. Copies below 64 KiB take as
    long either way and are not meant; copies back to the host are MEM005's.

References
    - https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    - https://developer.nvidia.com/blog/how-optimize-data-transfers-cuda-cc/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Severity
from necropsy.rule import rule
from necropsy.rules.memory._copies import amount, each, exposure, facts, pin_fixes, rate
from necropsy.trace.claim import about, in_function

if TYPE_CHECKING:
    from necropsy.trace.copies import CopySite
    from necropsy.trace.profile import Profile


class Thresholds(Struct, frozen=True):
    """When pageable copies are told.

    `share` of the steps' time with nothing but these copies; or, in steps that wait for
    something else most of the time, `busy` of the time in which the device ran anything and
    `least` ms a step. `single`: share for copies that do not recur.
    """

    share: float = 0.01
    busy: float = 0.1
    least: float = 0.5
    single: float = 0.05


@rule("MEM003", "pageable-copies", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a function that copies pageable memory."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.copies import MOST_SITES, copies_of, sites_of

        for site in sites_of(p, "MEM003")[:MOST_SITES]:
            if _matters(p, site, copies_of(p).recurring(site), t):
                yield _finding(p, site)


def _matters(p: Profile, site: CopySite, recurring: bool, t: Thresholds) -> bool:
    share = p.share(site.exposed)
    if not recurring:
        return share >= t.single
    busy = int(p.rank.busy.within(p.steps.start, p.steps.end).sum())
    of_device = site.exposed >= t.busy * busy and p.per_step(site.exposed) >= t.least * 1e6
    return share >= t.share or of_device


def _finding(p: Profile, site: CopySite) -> Finding:
    from necropsy.trace.copies import has_loader, pins

    vain = "; its non_blocking=True is in vain" if site.in_vain else ""
    return about(
        p,
        f"{each(p, site)} {amount(site)} from pageable host memory to the GPU{in_function(site.place)}{rate(site)} "
        f"({exposure(p, site)}) while no kernel runs: it goes through a staging buffer and keeps the host busy until "
        f"it is done{vain}.",
        Severity.WARNING,
        shows="Memcpy HtoD (Pageable -> Device)",
        ns=site.exposed,
        places=[site.place],
        facts=facts(p, site),
        fixes=pin_fixes(has_loader(p), pins(p)),
    )
