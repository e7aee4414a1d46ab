"""Graph breaks that the trace shows

What it means
    torch.compile could not put a function into one graph: it runs a piece, goes back to Python for the line that
    it cannot compile, and goes on with the rest. The rest is a function of its own, whose
    name holds the function and the line: `torch_dynamo_resume_in_forward_at_69`. Each
    break costs Python time and fusions across it; where the device runs dry meanwhile, that
    is told.

Why it happens
    Printing, logging, reading a value of a tensor (`.item()`, `if tensor:`), calls that
    Dynamo does not trace.

How to confirm
    `TORCH_LOGS=graph_breaks` prints the reason of each, which CMP001 to CMP006 explain;
    `torch.compile(fullgraph=True)` makes the first one an error.

How to fix
    Move what breaks out of the compiled function, or write it so that it can be traced
    (`torch.where`, `torch.cond`, tensors instead of Python numbers).

Limits
    The reason is not in the trace. Idle time is that between the graph before a break and
    the one behind it; other rules may count parts of it as their own, so that this one
    states no cost. A break after which nothing is compiled leaves no trace.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html#graph-breaks
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import MAX_PLACES, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, ms, part, times

if TYPE_CHECKING:
    from necropsy.trace.compiling import Break
    from necropsy.trace.profile import Profile


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time idle around breaks from which they are a warning: as DAT001's 5 %."""

    share: float = 0.05


@rule("CMP022", "breaks-in-trace", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a trace, for the breaks that most steps meet."""
    for p in traces.profiles:
        if not any("resume" in name for name in p.trace.names):
            continue
        from necropsy.trace.compiling import breaks

        if found := [b for b in breaks(p) if 2 * b.steps > len(p.steps)]:
            yield _finding(p, found, t)


def _finding(p: Profile, found: list[Break], t: Thresholds) -> Finding:
    idle = 0 if p.graphs or p.cpu_only else sum(b.idle for b in found)
    dear = p.share(idle) >= t.share
    lines = _listed([f"{b.place.function}:{b.place.line}" for b in found[:MAX_PLACES]])
    more = f" and {len(found) - MAX_PLACES} more" if len(found) > MAX_PLACES else ""
    each = sum(b.count for b in found) / max(1, len(p.steps))
    cost = f", and the GPU idles {ms(p.per_step(idle))} ({part(p.share(idle))}) around them" if dear else ""
    return about(
        p,
        f"Compiled code breaks at {lines}{more}, {times(each)} a {p.step_word}{cost}: what stands on both sides "
        "is compiled apart.",
        Severity.WARNING if dear else Severity.NOTE,
        shows=f"torch_dynamo_resume_in_{found[0].place.function}_at_{found[0].place.line}",
        places=[b.place for b in found],
        facts={"breaks": len(found), **({"idle around breaks (ms)": round(idle / 1e6, 2)} if idle else {})},
        fixes=(
            Fix("See why each breaks", "investigate", command="TORCH_LOGS=graph_breaks python train.py"),
            Fix("Move these lines out of the compiled function, or make them traceable", "code"),
        ),
    )


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
