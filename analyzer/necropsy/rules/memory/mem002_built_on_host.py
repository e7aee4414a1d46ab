"""Tensors are built on the CPU and then moved, step after step

What it means
    The same call of a function makes a tensor on the CPU (`torch.full`, `randn`, `arange`)
    and copies it to the GPU. The CPU fills it slowly, the copy comes from pageable memory,
    and the host waits for it.

Why it happens
    A factory without `device=` builds on the CPU; `.to(x.device)` then looks harmless.

How to confirm
    In the trace the function has the factory's operator (without a kernel) and then
    `aten::to` with a `Memcpy HtoD` of the same number of elements.

How to fix
    Build it where it is needed (`torch.full(..., device=x.device)`), or once: as a buffer
    of the module.

Limits
    Needs a trace with stacks and shapes. Tensors that another function built are not
    recognised. Random numbers drawn on the GPU differ from those of the CPU's generator.

References
    - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.memory._copies import each, facts
from necropsy.trace.claim import about, in_function, ms, part
from necropsy.units import human_bytes

if TYPE_CHECKING:
    from necropsy.trace.copies import CopySite
    from necropsy.trace.profile import Profile


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time that building and moving take the host, for a warning; `worth` for a note."""

    share: float = 0.02
    worth: float = 0.005


@rule("MEM002", "built-on-host", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a function that builds and moves in most steps."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.built import host_time, moved
        from necropsy.trace.copies import MOST_SITES, copies_of, seen_often, sites_of

        book = copies_of(p)
        for site in sites_of(p, "MEM002")[:MOST_SITES]:
            host = site.host + host_time(p, moved(p, book.frame[site.rows]))
            if seen_often(p, book.copies["start"][site.rows]) and p.share(host) >= t.worth:
                yield _finding(p, site, host, Severity.WARNING if p.share(host) >= t.share else Severity.NOTE)


def _finding(p: Profile, site: CopySite, host: int, severity: Severity) -> Finding:
    from necropsy.trace.built import moved, names_of
    from necropsy.trace.copies import copies_of

    made = " and ".join(names_of(p, moved(p, copies_of(p).frame[site.rows]))[:2])
    count = site.count / max(1, site.steps)
    what = f"a tensor of {human_bytes(site.bytes / site.count)}" if count < 1.5 else f"{count:.0f} tensors"
    them = "it" if count < 1.5 else "them"
    return about(
        p,
        f"{each(p, site, 'builds')} {what} on the CPU with {made} only to copy {them} to the "
        f"GPU{in_function(site.place)}: {ms(p.per_step(host))} of the host's time a step ({part(p.share(host))}), "
        "which building on the GPU would not take.",
        severity,
        shows="aten::to behind a factory operator without a kernel",
        ns=site.exposed,
        places=[site.place],
        facts=facts(p, site),
        fixes=(
            Fix("Build it on the device: add `device=...` to the call", "code"),
            Fix("If it never changes, build it once and keep it as a buffer", "code"),
        ),
    )
