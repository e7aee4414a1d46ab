"""The GPU waits for the DataLoader

What it means
    The training loop stood in `next()` of its DataLoader for this part of the steps while
    the device ran nothing. Nothing on the device can be made faster until batches come
    sooner.

Why it happens
    Decoding, augmenting and collating a batch take longer than a step, the storage is
    slow, or there are too few workers (none, if DAT002 is reported, too). With workers, the
    first batch of an epoch waits for all of them to start.

How to confirm
    Replace the loader by one constant batch: if the step time falls by about the time
    reported here, this is it. `py-spy dump` on a worker shows what it is busy with.

How to fix
    Give the loader workers (`num_workers`, `persistent_workers=True`, `prefetch_factor`),
    move decoding and augmentation to the device (DALI, `torchvision.transforms.v2` on
    CUDA tensors), store samples in larger, decoded files, or cache them.

Limits
    Only loaders of `torch.utils.data` are seen. Time in a user's own iterator is counted
    as Python. The time is that in which the device was idle, so that loading that overlaps
    with running kernels costs nothing here. A wait in less than half of the steps (the
    start of an epoch, one slow file) is a note.

References
    - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    - https://docs.pytorch.org/docs/stable/data.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile

_FIXES: Final = (
    Fix("Give the DataLoader more workers: `num_workers=...`, `persistent_workers=True`", "code"),
    Fix("Move decoding and augmentation to the GPU, or store decoded samples", "code"),
)
_START: Final = (
    Fix("Keep the workers from epoch to epoch: `DataLoader(..., persistent_workers=True)`", "code"),
    Fix("Look for what is special about that batch: the first of an epoch, a large file, a cold cache", "investigate"),
)


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time: 5 % is what Kineto's TensorBoard plugin recommended from (removed in 2026)."""

    share: float = 0.05


@rule("DAT001", "loading-dominates", Severity.WARNING, settings=Thresholds, general=True)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a rank whose steps wait for data."""
    for p in traces.profiles:
        if p.graphs or p.share(p.partition.total("data loading")) < t.share:
            continue
        yield _finding(p)


def _finding(p: Profile) -> Finding:
    from necropsy.trace.loading import longest, loops, waiting_steps

    waited = p.partition.total("data loading")
    sites, some, steps = loops(p), waiting_steps(p), len(p.steps)
    first = sites[0].place if sites else None
    often = 2 * some > steps
    who = f"Each {p.step_word}" if some == steps else f"{some} of {steps} {p.step_word}s"
    verb = "waits" if some in (steps, 1) else "wait"
    amount = ms(waited / max(some, 1))
    idle = "the GPU does nothing" if not p.cpu_only else "nothing else runs"
    return about(
        p,
        f"{who} {verb} {amount} for the DataLoader{in_function(first)} ({part(p.share(waited))} of the time) "
        f"while {idle}.",
        Severity.WARNING if often else Severity.NOTE,
        shows="enumerate(DataLoader)#...__next__ on the main thread",
        ns=waited,
        places=[first],
        event=f"loading@{p.input}",
        facts={"batches": sum(s.count for s in sites), "longest wait (ms)": round(longest(p) / 1e6, 1)},
        fixes=_START if not often else _FIXES[:1] if p.cpu_only else _FIXES,
    )
