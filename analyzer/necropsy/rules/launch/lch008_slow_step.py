"""Some steps take much longer than the others

What it means
    A step took more than 1.5 times as long as the usual one. What it did that the others did not is
    told where the trace shows it: writing a checkpoint, allocating, computing more,
    waiting for other ranks, or a function of the program that ran in no other step.

Why it happens
    Checkpoints and evaluation every so many steps, logging, batches of other sizes, other programs on the machine.

How to confirm
    Profile more steps: what comes back at regular intervals is part of the program.

How to fix
    Checkpoints: write them from another thread or process (`torch.distributed.checkpoint.async_save`,
    or copy to pinned memory and save from a thread) and less often. Otherwise see the function that is named.

Limits
    Of few steps little can be said: from three on, and not if more than half are slow; half
    of them are a note, since a host that is slow now and then looks the same. Compiling (CMP021),
    loading (DAT001) and `gc.collect()` (DAT006) are told by their rules. A single slow step is a
    note; a host that was slow in no function in particular is not told.
    Steps that do the same work in other sizes (requests of several lengths, the last batch) cannot be compared
    with the others: they are a note, which says so. Sizes are those of operators, or of kernels' grids where the
    profiler recorded no shapes.

References
    - https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Place, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part

if TYPE_CHECKING:
    from necropsy.trace.pauses import Slow
    from necropsy.trace.profile import Profile

_ELSEWHERE: Final = ("data loading", "compiling", "collecting garbage")  # DAT001 to DAT005, CMP021, DAT006
_OWN: Final = ("saving", "Python", "dispatching")  # the buckets whose excess is this rule's to count
_ASYNC: Final = (
    Fix("Save without stopping: `torch.distributed.checkpoint.async_save`, or copy to pinned memory and save "
        "from a thread", "code"),
    Fix("Save less often", "code"),
)  # fmt: skip
_SIZES: Final = (
    Fix("Run each size once before it counts (warm-up), or pad inputs to a few sizes", "code"),
    Fix("Profile more steps, to see whether it comes back", "investigate"),
)
_LOOK: Final = (Fix("Profile more steps, to see whether it comes back", "investigate"),)


class Thresholds(Struct, frozen=True):
    """`saving` is the part of the steps' time from which a checkpoint is a warning; `excess` that of other causes."""

    saving: float = 0.10
    excess: float = 0.10


@rule("LCH008", "slow-step", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """At most one finding a rank."""
    for p in traces.profiles:
        saved = p.partition.total("saving")
        if not p.graphs and p.share(saved) >= t.saving:
            yield _saving(p, saved)
            continue
        from necropsy.trace.pauses import slow_steps

        slow = slow_steps(p)
        if slow is not None and not p.graphs and p.share(slow.ns) >= t.excess and slow.main not in _ELSEWHERE:
            yield from _slow(p, slow)


def _saving(p: Profile, ns: int) -> Finding:
    from necropsy.trace.pauses import sites_in, slow_steps

    sites = sites_in(p, p.activity.saving)
    first = sites[0].place if sites else None
    steps = int((p.partition.buckets["saving"] > 0).sum())
    slow = slow_steps(p)
    usual = f" of a step that else takes {ms(slow.usual)}" if slow is not None else ""
    idle = "while the GPU does nothing" if not p.cpu_only else "while nothing else runs"
    return about(
        p,
        f"{steps} of {len(p.steps)} {p.step_word}s {'writes' if steps == 1 else 'write'} a checkpoint"
        f"{in_function(first)}, for {ms(ns / steps)} each{usual} ({part(p.share(ns))} of the time), {idle}.",
        Severity.WARNING if steps > 1 else Severity.NOTE,
        shows="torch/serialization.py: save",
        ns=ns,
        places=[first],
        event=f"saving@{p.input}",
        facts={"checkpoints": sum(s.count for s in sites)},
        fixes=_ASYNC,
    )


def _slow(p: Profile, slow: Slow) -> Iterator[Finding]:
    from necropsy.trace.pauses import busiest

    if slow.sizes:
        yield _sized(p, slow)
        return
    site = busiest(p, slow.steps)
    place: Place | None = site.place if site is not None else None
    if place is None and slow.main in _OWN:
        return  # the host was slow somewhere: another program on the machine would do
    numbers = [int(n) for n in p.steps.number[slow.steps]]
    longest = int(p.steps.length[slow.steps].max())
    one, few = len(numbers) == 1, 2 * len(numbers) < len(p.steps)
    listed = f"Step {numbers[0]} takes" if one else f"{len(numbers)} of {len(p.steps)} steps take up to"
    times = f"{longest / slow.usual:.1f} times the usual {ms(slow.usual)}"
    extra = f"{ms(slow.excess[slow.main] / len(numbers))} more {_said(slow.main)}"
    where = f", most of it{in_function(place)}" if place is not None else ""
    own = sum(max(0, slow.excess[b]) for b in _OWN)
    yield about(
        p,
        f"{listed} {ms(longest)}, {times}: {extra}{where}.",
        Severity.WARNING if not one and few and place is not None else Severity.NOTE,
        shows=f"ProfilerStep#{numbers[0]}",
        ns=own,
        places=[place],
        event=f"slow step@{p.input}",
        facts={"slow steps": numbers[:20], "usual (ms)": round(slow.usual / 1e6, 2)},
        fixes=_LOOK,
    )


def _sized(p: Profile, slow: Slow) -> Finding:
    """Steps of other sizes: what is known about them."""
    numbers = [int(n) for n in p.steps.number[slow.steps]]
    longest = int(p.steps.length[slow.steps].max())
    one = len(numbers) == 1
    which = f"Step {numbers[0]} is" if one else f"{len(numbers)} of {len(p.steps)} steps are"
    what, why = (
        (f"the first of {'its' if one else 'their'} sizes", "libraries often choose or build kernels once a size")
        if slow.sizes == "first"
        else ("of other sizes than the usual ones", "such times cannot be compared")
    )
    times = f"{longest / slow.usual:.1f} times the usual {ms(slow.usual)}"
    return about(
        p,
        f"{which} {what} and take{'s' if one else ' up to'} {ms(longest)}, {times}: {why}.",
        Severity.NOTE,
        shows=f"ProfilerStep#{numbers[0]}" if p.steps.how == "annotation" else "operators with other Input Dims",
        event=f"slow step@{p.input}",
        confidence=Confidence.LIKELY,
        facts={"slow steps": numbers[:20], "usual (ms)": round(slow.usual / 1e6, 2)},
        fixes=_SIZES if slow.sizes == "first" else _LOOK,
    )


def _said(bucket: str) -> str:
    """A bucket as the thing of which there is more."""
    return {
        "compute": "of computing on the GPU",
        "communication": "of waiting in collectives",
        "copies": "of copying",
        "allocating": "of allocating memory",
        "synchronising": "of waiting for the GPU",
        "dispatching": "in operators and launches",
        "Python": "in Python",
        "saving": "of writing a checkpoint",
    }.get(bucket, "between kernels")
