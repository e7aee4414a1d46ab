"""Another thread of the process works while the GPU idles

What it means
    In most of the long pauses of the device the threads that drive it stood still, outside any
    operator, while another thread of the same process was busy. Python runs one thread at a time: whoever
    holds the interpreter's lock stops the others. Calls of the driver that pin or
    unpin memory can hold its locks, too.

Why it happens
    The DataLoader's pin-memory thread, which pins new buffers (`cudaHostAlloc`, `cudaHostRegister`) and
    frees old ones; prefetching, logging, metrics or checkpoint threads that work in Python.

How to confirm
    `py-spy dump` during a pause shows which thread holds the lock (`--gil`); or leave the
    other thread's work out: the pauses disappear.

How to fix
    Pin-memory thread: fewer and larger tensors a batch, pinned buffers that are used again, pinning
    outside of the training process, or `pin_memory=False` if copies are small. Other threads: move
    their work to a process.

Limits
    A coincidence in most steps, not a proof: the trace shows no lock. It needs the other thread's events
    (frames with `with_stack=True`, or its calls of the driver).

References
    - https://github.com/pytorch/pytorch/issues/77139
    - https://docs.pytorch.org/docs/stable/data.html#memory-pinning
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, ms, part

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile
    from necropsy.trace.threads import Busy

_PIN: Final = (
    Fix("Pin fewer and larger tensors (collate into one), or reuse pinned buffers", "code"),
    Fix("Try `pin_memory=False`, or pin outside of the training process; try a newer torch", "code"),
)
_OTHER: Final = (
    Fix("Move that thread's work to another process, or into native code that releases the lock", "code"),
    Fix("See who holds the interpreter's lock", "investigate", command="py-spy dump --pid <process>"),
)


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time: 5 %, a third of the idle share that TraceLens warns from (15 %)."""

    share: float = 0.05


@rule("LCH014", "other-thread-busy", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a rank most of whose steps show it."""
    for p in traces.gpu_profiles:
        # What is in question is a part of the bucket "Python": nothing else is needed for most traces.
        if p.graphs or p.steps.how == "window" or p.partition.share("Python") < t.share:
            continue
        from necropsy.trace.threads import coinciding

        busy = coinciding(p)
        if busy is not None and p.share(busy.ns) >= t.share and 2 * busy.steps > len(p.steps) > 1:
            yield _finding(p, busy)


def _finding(p: Profile, busy: Busy) -> Finding:
    who = "The DataLoader's pin-memory thread" if busy.pinning else "Another thread of the process"
    named = f" ({busy.name})" if busy.name else ""
    inside = f" in {_short(busy.what[0])}" if busy.what else ""
    return about(
        p,
        f"{who}{named} works{inside} while the GPU is idle and the threads that launch its work stand still: "
        f"{ms(p.per_step(busy.ns))} of each {p.step_word} ({part(p.share(busy.ns))}), in {busy.steps} of "
        f"{len(p.steps)} steps.",
        Severity.WARNING,
        shows=busy.what[0] if busy.what else "",
        ns=busy.ns,
        confidence=Confidence.LIKELY,
        event=f"other thread@{p.input}",
        facts={
            "it runs": [_short(n) for n in busy.what],
            "pauses": busy.gaps,
            "longest (ms)": round(busy.longest / 1e6, 1),
        },
        fixes=_PIN if busy.pinning else _OTHER,
    )


def _short(name: str) -> str:
    return name if len(name) <= 80 else name[:77] + "..."
