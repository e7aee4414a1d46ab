"""Host and GPU exchange much data, or many small pieces, in every step

What it means
    The device stands still while data moves between it and the host, or the host asks for
    so many small copies that asking takes its time: each costs some 10 us whatever its
    size, and one from pageable memory waits until it has arrived.

Why it happens
    Samples are moved one by one and stacked on the GPU; activations, predictions or
    metrics are brought back in every step; a part of the model or its state lives on the
    CPU (offloading).

How to confirm
    Look for `Memcpy HtoD` and `Memcpy DtoH` under the named function, and at what else
    the device does meanwhile.

How to fix
    Stack on the CPU and move once; reduce on the GPU and bring back the result, every n
    steps; copy to pinned memory with `non_blocking=True` on a side stream while the next
    step is computed.

Limits
    Only the time in which the device did nothing but copy is counted. Reads of single
    numbers (`.item()`) are waits, not transfers, and are told by the rules of family SYN.

References
    - https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.memory._copies import amount, each, exposure, facts, rate
from necropsy.trace.claim import about, in_function, ms, part

if TYPE_CHECKING:
    from necropsy.trace.copies import CopyBook, CopySite
    from necropsy.trace.profile import Profile


class Thresholds(Struct, frozen=True):
    """When transfers are told.

    `share` of the steps' time with nothing but the copies (5 %, TraceLens); `many` copies a
    step (10, TraceLens) if asking for them takes `host` of the time (a note from `worth`). Copies from pinned
    memory, which are as good as copies get, are a warning from `pinned` (TraceML: 20 % is critical).
    """

    share: float = 0.05
    many: int = 10
    host: float = 0.02
    worth: float = 0.005
    pinned: float = 0.2


@rule("MEM005", "many-transfers", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a function and direction."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.copies import MOST_SITES, copies_of, told_by

        book = copies_of(p)
        mine = told_by(p, "MEM005")
        for way, mask in (("to the GPU", book.to_device), ("to the host", book.to_host)):
            for site in book.sites(mask & mine)[:MOST_SITES]:
                yield from _judged(p, book, site, way, t)


def _judged(p: Profile, book: CopyBook, site: CopySite, way: str, t: Thresholds) -> Iterator[Finding]:
    recurring = book.recurring(site)
    if p.share(site.exposed) >= t.share and (recurring or p.share(site.exposed) >= 2 * t.share):
        pinned = bool(book.pinned[site.rows].all())
        pageable = bool(book.pageable[site.rows].all())
        yield _heavy(p, site, way, (pinned, pageable), p.share(site.exposed) >= t.pinned)
    elif (
        recurring
        and way == "to the GPU"
        and p.per_step(site.count) > t.many
        and p.share(site.host) >= t.worth
    ):  # fmt: skip
        yield _many(p, site, Severity.WARNING if p.share(site.host) >= t.host else Severity.NOTE)


def _heavy(p: Profile, site: CopySite, way: str, memory: tuple[bool, bool], grave: bool) -> Finding:
    pinned, pageable = memory
    kind = "pinned" if pinned else "pageable" if pageable else ""
    back = way == "to the host"
    where = f"to {kind} host memory" if back and kind else f"from {kind} host memory {way}" if kind else way
    return about(
        p,
        f"{each(p, site)} {amount(site)} {where}{in_function(site.place)}{rate(site)} ({exposure(p, site)}) while no "
        "kernel runs: the model waits for the transfer.",
        Severity.WARNING if grave or not pinned else Severity.NOTE,
        shows=f"Memcpy {'DtoH' if back else 'HtoD'}",
        ns=site.exposed,
        places=[site.place],
        facts={**facts(p, site), "host memory": kind or "not told, or of both kinds"},
        fixes=_back() if back else _there(pinned),
    )


def _many(p: Profile, site: CopySite, severity: Severity) -> Finding:
    return about(
        p,
        f"{each(p, site)} {p.per_step(site.count):.0f} small tensors to the GPU one by one{in_function(site.place)} "
        f"({ms(p.per_step(site.host))} of the host's time, {part(p.share(site.host))} of the step): one copy of all "
        "of them costs little more than one of these.",
        severity,
        shows="Memcpy HtoD, many a step",
        ns=site.exposed,
        places=[site.place],
        facts=facts(p, site),
        fixes=(
            Fix("Stack or concatenate on the CPU, then move once: `torch.stack(items).to(device)`", "code"),
            Fix("Keep what does not change on the GPU (`register_buffer`)", "code"),
        ),
    )


def _back() -> tuple[Fix, ...]:
    return (
        Fix("Reduce on the GPU and bring back the result only, or only every n steps", "code"),
        Fix("If the data is needed: copy into a pinned buffer with `non_blocking=True` on a side stream", "code"),
    )


def _there(pinned: bool) -> tuple[Fix, ...]:
    first = Fix("Copy the next batch on a side stream while this one is computed (a prefetcher)", "code")
    smaller = Fix("Move less: uint8 images, half precision, or build on the GPU what can be built there", "code")
    if pinned:
        return (first, smaller)
    return (Fix("Copy from pinned memory with `non_blocking=True`, where it is not pinned yet", "code"), first, smaller)
