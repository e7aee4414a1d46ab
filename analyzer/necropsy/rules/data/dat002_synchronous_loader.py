"""Batches are made by the training process itself

What it means
    The DataLoader has no workers (`num_workers=0`): the thread that launches the GPU's work
    also reads, decodes and collates each batch, and the device runs nothing meanwhile.

Why it happens
    `num_workers=0` is the default of `torch.utils.data.DataLoader`, and is set for debugging.

How to confirm
    The range of the wait is named `_SingleProcessDataLoaderIter`. With `num_workers=4`
    the wait becomes short, or is reported as DAT005.

How to fix
    Give the loader workers, and keep them: `DataLoader(..., num_workers=N,
    persistent_workers=True)`, with N at most the CPUs of the process. If batches are
    copied from pageable memory, add `pin_memory=True` and copy with `non_blocking=True`.
    Where workers cannot be used, make the function that is named cheaper, or do its work on
    the device.

Limits
    Loaders of `torch.utils.data` (and torchdata's) only. Loading that overlaps with running
    kernels costs nothing here. A data set that already lives on the device needs no workers;
    it does not wait long, either.

References
    - https://docs.pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading
    - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, named, part

if TYPE_CHECKING:
    from necropsy.trace.loading import Slow
    from necropsy.trace.profile import Profile
    from necropsy.trace.stacking import Scattered

STACKING: Final = 0.5  # part of loading from which collating is where it goes
STACKED: Final = 0.05  # part of the steps from which DAT007 tells of samples that are not contiguous


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time: 5 %, as DAT001; what waits less gains little from workers."""

    share: float = 0.05


@rule("DAT002", "synchronous-loader", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a rank whose main thread makes its batches."""
    for p in traces.profiles:
        if p.graphs or p.share(p.partition.total("data loading")) < t.share:
            continue
        from necropsy.trace.loading import waiting_steps, workers

        if workers(p) is False and 2 * waiting_steps(p) > len(p.steps):
            yield _finding(p)


def _finding(p: Profile) -> Finding:
    from necropsy.trace.loading import loops, slow_functions, waits
    from necropsy.trace.stacking import collating

    waited, sites, slow = p.partition.total("data loading"), loops(p), slow_functions(p)
    first = sites[0].place if sites else None
    idle = "while the GPU does nothing" if not p.cpu_only else "before it can compute"
    facts: dict[str, Fact] = {"batches": sum(s.count for s in sites)}
    stacking = collating(p)
    view = _turned(p) if stacking >= STACKING else None
    where = ""
    if slow:
        whole = waits(p).total
        facts["loading is"] = [f"{named(s.place)} {part(s.ns / whole)}" for s in slow]
        where = f", mostly{in_function(slow[-1].place)}"
    elif stacking >= STACKING:
        facts["stacking samples (default_collate)"] = part(stacking)
        where = ", mostly stacking samples"
    return about(
        p,
        f"The DataLoader{in_function(first)} has no workers: each {p.step_word} spends "
        f"{ms(p.per_step(waited))} ({part(p.share(waited))}) making its batch in the main thread{where}, {idle}.",
        Severity.WARNING,
        shows="enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        ns=waited,
        places=[first, *(s.place for s in reversed(slow)), view.place if view else None],
        event=f"loading@{p.input}",
        facts=facts,
        fixes=_fixes(p, slow, view),
    )


def _turned(p: Profile) -> Scattered | None:
    """The view that leaves samples out of order, where it costs too little for DAT007 to tell it."""
    from necropsy.trace.stacking import scattered

    found = scattered(p)
    return found if found is not None and p.share(found.ns) < STACKED else None


def _fixes(p: Profile, slow: list[Slow], view: Scattered | None) -> tuple[Fix, ...]:
    from necropsy.trace.loading import pageable

    pinned = ", pin_memory=True" if pageable(p) else ""
    copied = " and copy with `.to(device, non_blocking=True)`" if pinned else ""
    fixes = [Fix(f"`DataLoader(..., num_workers=4, persistent_workers=True{pinned})`{copied}; tune the number", "code")]
    if slow:
        or_there = "" if p.cpu_only else ", or do its work on the device"
        cheaper = f"Make `{named(slow[-1].place)}` cheaper, or store its results{or_there}"
        fixes.append(Fix(cheaper, "code"))
    if view is not None:
        contiguous = (
            f"Try `.contiguous()` behind `{view.view}` in `{named(view.place)}`: "
            "stacking samples that are not contiguous copies element by element"
        )
        fixes.append(Fix(contiguous, "code"))
    return tuple(fixes)
