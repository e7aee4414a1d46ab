"""DataLoader workers do not keep up with the model

What it means
    Batches come from worker processes, and still most steps wait for the next one while
    the device runs nothing: the workers together make fewer batches a second than the
    model uses.

Why it happens
    Too few workers, expensive decoding or augmentation, slow or distant storage, workers
    that compete for the same CPUs (with each other and with other ranks), or batches that
    take long to hand over (large tensors through shared memory).

How to confirm
    `py-spy dump --pid` on a worker shows what it is busy with; `htop` shows whether workers
    are busy (too few, or too expensive) or wait (storage). Replace the loader by one
    constant batch: the step time falls by about the time reported here.

How to fix
    Up to the number of CPUs of the process: more workers. Beyond: cheaper samples (decoded
    ahead, larger files), or augmentation on the device. A larger `prefetch_factor` helps
    with uneven batches only.

Limits
    Worker processes are not in the trace, so the function in them that takes the time is
    unknown. How much faster they would have to be is an estimate: step time over step
    time without the wait.

References
    - https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
    - https://hta.readthedocs.io/en/latest/source/features/lightweight_critical_path_analysis.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time: TraceML warns from 10 %. `receiving`: part of the wait worth telling."""

    share: float = 0.10
    receiving: float = 0.3


@rule("DAT005", "workers-too-slow", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a rank most of whose steps wait for workers."""
    for p in traces.profiles:
        if p.graphs or p.steps.how == "window" or p.share(p.partition.total("data loading")) < t.share:
            continue
        from necropsy.trace.loading import waiting_steps, workers

        if workers(p) and len(p.steps) > 1 and 2 * waiting_steps(p) > len(p.steps):
            yield _finding(p, t)


def _finding(p: Profile, t: Thresholds) -> Finding:
    from necropsy.trace.loading import longest, loops, receiving, waiting_steps

    waited, sites = p.partition.total("data loading"), loops(p)
    first = sites[0].place if sites else None
    unpacking = receiving(p)
    needed = p.judged / max(1, p.judged - waited)
    idle = "the GPU does nothing" if not p.cpu_only else "nothing else runs"
    fixes = [
        Fix(
            f"Make batches about {needed:.1f} times as fast: more `num_workers` (up to the CPUs of the process)", "code"
        ),
        Fix(
            "Store decoded samples in larger files"
            if p.cpu_only
            else "Move decoding and augmentation to the GPU, or store decoded samples in larger files",
            "code",
        ),
        Fix("See what a worker is busy with", "investigate", command="py-spy dump --pid <worker>"),
    ]
    if unpacking >= t.receiving:
        fixes.insert(0, Fix("Hand over less: smaller dtypes (uint8), fewer and larger tensors a batch", "code"))
    return about(
        p,
        f"The DataLoader's workers are too slow: {waiting_steps(p)} of {len(p.steps)} steps wait for a batch"
        f"{in_function(first)}, {ms(p.per_step(waited))} of {ms(p.per_step(p.judged))} ({part(p.share(waited))}), "
        f"while {idle}.",
        Severity.WARNING,
        shows="enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
        ns=waited,
        places=[first],
        event=f"loading@{p.input}",
        facts={
            "batches": sum(s.count for s in sites),
            "longest wait (ms)": round(longest(p) / 1e6, 1),
            "faster batches needed (estimated)": f"{needed:.1f} times",
            **({"unpacking in the main process": part(unpacking)} if unpacking >= t.receiving else {}),
        },
        fixes=tuple(fixes),
    )
