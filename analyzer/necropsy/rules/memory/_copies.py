"""What the rules about copies say alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from necropsy.finding import Fact, Fix
from necropsy.trace.claim import ms, part
from necropsy.units import human_bytes

if TYPE_CHECKING:
    from necropsy.trace.copies import CopySite
    from necropsy.trace.profile import Profile


def amount(site: CopySite) -> str:
    """Bytes of a step with such copies: `14.06 MiB`; what was copied in a window that has no steps."""
    return human_bytes(site.bytes / max(1, site.steps))


def rate(site: CopySite) -> str:
    """` at 7.6 GB/s`, or nothing where sizes or times are not told."""
    return f" at {site.rate:.2g} GB/s" if site.rate else ""


def exposure(p: Profile, site: CopySite) -> str:
    """`1.95 ms, 0.4% of the time`: how long the device did nothing else for these copies."""
    return f"{ms(site.exposed / max(1, site.steps))}, {part(p.share(site.exposed))} of the time"


def facts(p: Profile, site: CopySite) -> dict[str, Fact]:
    """Numbers of a site, for one step or for the window."""
    word = p.step_word.removeprefix("profiled ")
    found: dict[str, Fact] = {f"copies a {word}": round(p.per_step(site.count), 1)}
    if site.bytes:
        found["size of a copy"] = human_bytes(site.bytes / site.count)
    found[f"time of the copies a {word} (ms)"] = round(p.per_step(site.ns) / 1e6, 3)
    if site.host:
        found[f"host time in the calls a {word} (ms)"] = round(p.per_step(site.host) / 1e6, 3)
    return found


def each(p: Profile, site: CopySite, verb: str = "copies") -> str:
    """`Each step copies`, `The profiled window copies` or `2 of 4 steps copy`; numbers are of one such step."""
    if p.step_word != "step":
        return f"The profiled window {verb}"
    if site.steps < len(p.steps):
        return f"{site.steps} of {len(p.steps)} steps {'copy' if verb == 'copies' else verb.removesuffix('s')}"
    return f"Each step {verb}"


def pin_fixes(loader: bool, pinned: bool) -> tuple[Fix, ...]:
    """How to pin what is copied; `pinned` says that the loader does so already."""
    if loader and not pinned:
        return (
            Fix("Pin the batches: `DataLoader(..., pin_memory=True)`, then `.to(device, non_blocking=True)`", "code"),
            Fix("Copy the next batch on a side stream while this one is computed", "code"),
        )
    return (
        Fix("Allocate the source pinned once (`torch.empty(..., pin_memory=True)`, `tensor.pin_memory()`)", "code"),
        Fix("Then copy with `.to(device, non_blocking=True)`; a side stream hides it behind compute", "code"),
    )
