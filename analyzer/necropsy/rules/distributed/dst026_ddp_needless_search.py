"""DDP searches for unused parameters in every step

What it means
    With `find_unused_parameters=True`, DistributedDataParallel walks the graph of every
    forward pass to find parameters that will get no gradient, and the ranks exchange what
    they found. Where every parameter takes part in the loss, that is work for nothing.

Why it happens
    The option was set to silence "Expected to have finished reduction in the prior
    iteration" (DST017) and stayed after the cause was gone; or it came with a template.

How to confirm
    torch warns once a process: "did not find any unused parameters in the forward pass".
    In a trace, `torch.distributed.ddp.reducer::search_unused_parameters` stands in every step.

How to fix
    Leave the option out. Where the parameters that are used never change, `static_graph=True`
    searches in the first iteration only.

Limits
    torch looked at the one iteration in which it warned: a branch that later iterations take may still
    leave parameters unused. A trace tells that DDP searches, not what it finds, and
    the time given is the search's own on the host, without the exchange of what was found.

References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    - https://docs.pytorch.org/docs/stable/notes/ddp.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy.claim import from_record
from necropsy.evidence.traces import Traces
from necropsy.evidence.unused_searches import UnusedSearches
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms

_FIXES: Final = (
    Fix("Leave out find_unused_parameters=True, if every parameter takes part in the loss on every rank", "code"),
    Fix("If the same parameters are unused in every iteration, pass static_graph=True: it searches once", "code"),
)


class Thresholds(Struct, frozen=True):
    """`steps`: part of the judged steps in which DDP must search (a static graph is searched once)."""

    steps: float = 0.9


@rule("DST026", "ddp-needless-search", Severity.NOTE, settings=Thresholds)
def check(searches: UnusedSearches | None, traces: Traces | None, t: Thresholds) -> Iterator[Finding]:
    """One finding a process."""
    for search in searches or ():
        yield from_record(
            search,
            "find_unused_parameters=True makes DDP walk the graph in every iteration; it found no unused parameter: "
            "work for nothing, unless other iterations leave some out.",
            Severity.NOTE,
            fixes=_FIXES,
        )
    for p in traces.profiles if traces is not None else ():
        from necropsy.trace.parallel import unused_searches

        found = unused_searches(p)
        if found is None or found.steps < t.steps:
            continue
        yield about(
            p,
            f"find_unused_parameters=True makes DDP walk the graph in every {p.step_word}{in_function(found.place)}: "
            f"{ms(p.per_step(found.ns))} of the host, for nothing if all parameters are used.",
            Severity.NOTE,
            shows="torch.distributed.ddp.reducer::search_unused_parameters",
            places=[found.place],
            confidence=Confidence.LIKELY,
            event=f"unused search@{p.input}",
            facts={"search (us a step)": round(p.per_step(found.ns) / 1e3, 1)},
            fixes=_FIXES,
        )
