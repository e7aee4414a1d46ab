"""Reading a value of the GPU makes the host wait for it in every step

What it means
    The host needs a value that is still on the GPU (`.item()`, `.cpu()`, `if tensor:`,
    `nonzero`, a boolean mask), so that it stands until the GPU has worked off everything
    launched before. It launches nothing meanwhile; the GPU runs dry and idles until the host has
    launched again.

Why it happens
    Logging the loss in every step, accuracy computed on the host, conditions on tensors,
    indexing by a mask. Each looks like plain Python.

How to confirm
    `torch.cuda.set_sync_debug_mode("warn")` prints the line of each such wait. In the trace:
    a copy `DtoH` and a `cudaStreamSynchronize` inside the operator.

How to fix
    Keep the value on the GPU (`total += loss.detach()`) and read it every so many steps; copy
    with `non_blocking=True` into pinned memory and read it a step later; replace conditions
    by `torch.where` and masks by multiplication, or by `nonzero_static` of a known size.

Limits
    The cost is the part of the GPU's gap behind the wait that the host would not have needed
    had it not waited: at most as long as it waited. A program whose GPU is idle anyway loses
    little by such a wait, and is told so. The profiler tells the function, not the line.

References
    - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
    - https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part, times

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile
    from necropsy.trace.waiting import WaitSite


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time and `least` ns of all of them, from which it is a warning (nsys-ai's 2 % and 1 ms).

    Also from `many` waits a step on, whatever they cost: the host can never run ahead. At most
    `notes` functions with fewer and cheaper ones are told.
    """

    share: float = 0.02
    least: int = 1_000_000
    many: int = 8
    notes: int = 4


@rule("SYN002", "implicit-synchronisation", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a function and kind of wait that comes in most steps."""
    for p in traces.gpu_profiles:
        from necropsy.trace import waiting
        from necropsy.trace.idle import judgeable

        if not judgeable(p):
            continue
        notes = 0
        for site in waiting.sites(p, tuple(waiting.WORDS)):
            dear = p.share(site.idle) >= t.share and site.idle >= t.least
            loud = dear or p.per_step(site.count) >= t.many
            notes += not loud
            if waiting.recurring(p, site) and (loud or (site.place is not None and notes <= t.notes)):
                yield _users(p, site, loud, dear)
        for owner, words, fixes in _INTERNAL:
            inside = waiting.sites(p, tuple(waiting.WORDS), owner)
            if inside and p.share(sum(s.idle for s in inside)) >= t.share:
                yield _internal(p, inside, words, fixes)


def _users(p: Profile, site: WaitSite, loud: bool, dear: bool) -> Finding:
    from necropsy.trace.waiting import SHORT, WORDS

    idle = ms(p.per_step(site.idle))
    consequence = (
        f"the GPU then idles {idle} a {p.step_word} ({part(p.share(site.idle))} of the time) until the host has "
        "launched again"
        if dear
        else f"here that costs {idle} a {p.step_word}"
        + (", and the host can never run ahead of the GPU" if loud else "")
    )
    words = WORDS[site.kinds[0]] if len(site.kinds) == 1 else " and ".join(SHORT[k] for k in site.kinds)
    words = f"{words[0].upper()}{words[1:]}{in_function(site.place)} make{'s' if len(site.kinds) == 1 else ''}"
    return about(
        p,
        f"{words} the host wait for the GPU (a hidden synchronisation) "
        f"{times(p.per_step(site.count))} a {p.step_word}; {consequence}.",
        Severity.WARNING if loud else Severity.NOTE,
        shows=f"Memcpy DtoH and {site.spelled.strip('`')} inside the operator",
        ns=site.idle,
        places=[site.place],
        facts=_facts(p, [site]),
        fixes=(*(_FIXES[k] for k in site.kinds), _FIND),
    )


def _internal(p: Profile, inside: list[WaitSite], words: str, fixes: tuple[Fix, ...]) -> Finding:
    idle = sum(s.idle for s in inside)
    often = times(p.per_step(sum(s.count for s in inside)))
    return about(
        p,
        f"{words}{in_function(inside[0].place)} and makes the host wait {often} a {p.step_word}; "
        f"the GPU then idles {ms(p.per_step(idle))} ({part(p.share(idle))} of the time).",
        Severity.WARNING,
        shows="Memcpy DtoH and a wait inside torch's own code",
        ns=idle,
        places=[inside[0].place],
        facts=_facts(p, inside),
        fixes=fixes,
    )


def _facts(p: Profile, waits: list[WaitSite]) -> dict[str, str | int | float | bool | list[str] | list[int]]:
    return {
        f"waits a {p.step_word}": round(p.per_step(sum(s.count for s in waits)), 1),
        f"host waits (ms a {p.step_word})": round(p.per_step(sum(s.blocked for s in waits)) / 1e6, 3),
    }


_FIND = Fix(
    'See each line that waits: `torch.cuda.set_sync_debug_mode("warn")` before the loop', "investigate"
)  # fmt: skip
_FIXES = {
    1: Fix("Keep the value on the GPU (`total += loss.detach()`) and read it every so many steps", "code"),
    2: Fix("Replace the condition by `torch.where`, or test it every so many steps", "code"),
    3: Fix("Copy into pinned memory with `non_blocking=True` and read it a step later, or every so many steps", "code"),
    4: Fix("Multiply by the mask or use `torch.where`; of known size: `torch.nonzero_static`", "code"),
}  # by kind of wait
_INTERNAL = (
    (
        3,
        "A check inside the backward pass (anomaly detection tests every gradient) reads values of the GPU",
        (Fix("Turn `torch.autograd.set_detect_anomaly` off once the error is found", "code"),),
    ),
    (
        1,
        "The optimizer reads its step counts or gradients' state from the GPU inside `opt.step()`",
        (Fix("Build the optimizer with `fused=True` or `capturable=True`, which keep them on the GPU", "code"),),
    ),
    (
        2,
        "GradScaler reads from the GPU whether gradients overflowed",
        (
            Fix("Train in bfloat16, which needs no GradScaler", "code"),
            Fix("Build the optimizer with `fused=True`, which decides on the GPU", "code"),
        ),
    ),
)
