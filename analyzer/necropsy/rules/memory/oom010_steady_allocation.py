"""Device memory is taken from the driver in every step

What it means
    torch's allocator keeps freed memory and hands it out again, so that after the first
    steps nothing is asked of the driver. Here each step calls `cudaMalloc` or `cudaFree`.
    Both are slow, and `cudaFree` waits until the GPU is idle.

Why it happens
    `torch.cuda.empty_cache()` in the loop gives the cache away, and the next step takes
    it back. Without it: shapes that change or grow leave cached blocks that fit nothing;
    or the GPU is so full that the allocator frees its cache to serve a request.

How to confirm
    The trace has `cudaMalloc` and `cudaFree` in steps after the first;
    `torch.cuda.memory_stats()["num_alloc_retries"]` rises if memory is short.

How to fix
    Remove `empty_cache()` from the loop. Keep shapes stable (pad to a few sizes), or let
    segments grow: `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`. If memory is short,
    lower the peak.

Limits
    The cost is the time in which the GPU ran nothing since the host was in these calls;
    that it takes to get going again afterwards is counted elsewhere. The first steps of a
    run allocate rightly: the pattern must go on to the last step that was recorded.

References
    - https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
    - https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part
from necropsy.units import human_bytes

if TYPE_CHECKING:
    from necropsy.trace.allocation import Churn
    from necropsy.trace.profile import Profile, Site

_SEGMENTS = Fix(
    "Let segments grow, if shapes must change", "env", "safe", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
)


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time that the calls take the host, for a warning.

    Below it, memory that is only taken is a warning if what is reserved rises by `rise` of the
    device a step (1 %: full after 100), and a note from `worth` of the host's time.
    """

    share: float = 0.02
    rise: float = 0.01
    worth: float = 0.005


@rule("OOM010", "steady-allocation", Severity.WARNING, settings=Thresholds, aliases=("empty-cache-in-loop",))
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a trace."""
    for p in traces.profiles:
        from necropsy.trace.allocation import churn, emptied
        from necropsy.trace.copies import seen_often

        found = churn(p)
        if found is None or not found.steady:
            continue
        sites = [s for s in emptied(p) if seen_often(p, p.rank.frames["start"][s.rows])]
        if sites and p.share(found.host) >= t.worth:
            yield _emptied(p, found, sites[0], Severity.WARNING if p.share(found.host) >= t.share else Severity.NOTE)
        elif not sites and not found.fading:
            yield from _taken(p, found, t)


def _emptied(p: Profile, found: Churn, site: Site, severity: Severity) -> Finding:
    return about(
        p,
        f"`empty_cache()`{in_function(site.place)} gives the allocator's memory back in every step, and the step after "
        f"takes it again: {_calls(p, found)} take {_held(p, found)}.",
        severity,
        shows="cudaFree under empty_cache, then cudaMalloc",
        ns=_cost(p, found),
        places=[site.place],
        facts=_facts(p, found),
        fixes=(
            Fix("Remove `torch.cuda.empty_cache()` from the loop: freed memory is reused without it", "code"),
            Fix("If another process needs the memory, empty the cache once per epoch", "code"),
        ),
    )


def _taken(p: Profile, found: Churn, t: Thresholds) -> Iterator[Finding]:
    """Without `empty_cache`: memory is short, shapes change, or the program keeps what it allocates (OOM003)."""
    from necropsy.trace.allocation import calls_at
    from necropsy.trace.memory import curves, growth, reserved_growth

    known = curves(p)
    if known and growth(p, known[0]) is not None:
        return
    rise = reserved_growth(p, known[0]) if known else 0
    grave = bool(rise and known[0].capacity and rise >= t.rise * known[0].capacity)
    if not grave and p.share(found.host) < t.worth:
        return
    short = len(found.given) > 0
    why = "memory is short, or was freed by hand" if short else "shapes change, and cached blocks fit nothing"
    more = f"; reserved memory rises by {human_bytes(rise)} a step" if rise else ""
    sites = calls_at(p, found)
    first = sites[0].place if sites else None
    yield about(
        p,
        f"Every step takes GPU memory from the driver{in_function(first)} ({_calls(p, found)}, {_held(p, found)}): "
        f"{why}{more}.",
        Severity.WARNING if grave or p.share(found.host) >= t.share else Severity.NOTE,
        shows="cudaMalloc in the last steps",
        ns=_cost(p, found),
        places=[first],
        facts=_facts(p, found),
        fixes=(
            Fix("Lower the peak: smaller micro-batch, activation checkpointing", "config")
            if short
            else Fix("Keep shapes stable: pad to a few sizes, allocate the largest batch first", "code"),
            _SEGMENTS,
        ),
    )


def _calls(p: Profile, found: Churn) -> str:
    taken, given = p.per_step(len(found.taken)), p.per_step(len(found.given))
    said = [f"{n:.0f} {name}" for n, name in ((taken, "cudaMalloc"), (given, "cudaFree")) if n >= 0.5]
    return f"{' and '.join(said)} a step" if said else "such calls"


def _held(p: Profile, found: Churn) -> str:
    return f"{ms(p.per_step(found.host))} of the host's time a step ({part(p.share(found.host))})"


def _cost(p: Profile, found: Churn) -> int | None:
    """Idle time of the device; under replayed graphs nobody knows it."""
    return None if p.graphs or p.cpu_only else found.idle


def _facts(p: Profile, found: Churn) -> dict[str, Fact]:
    return {
        "steps with such calls": f"{found.steps} of the {found.later} after the first",
        "calls of cudaMalloc": len(found.taken),
        "calls of cudaFree": len(found.given),
        "GPU idle meanwhile a step (ms)": round(p.per_step(found.idle) / 1e6, 3),
    }
