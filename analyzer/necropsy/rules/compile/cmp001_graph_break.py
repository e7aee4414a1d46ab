"""torch.compile broke the graph at this line

What it means
    Dynamo met something that it cannot put into a graph. What stands before it is compiled, the
    line runs eagerly, what follows is compiled as a function of its own. Each break costs
    launches, guards and everything that could have been fused across it; within a DDP or FSDP
    forward it can also change when communication overlaps.

Why it happens
    There are hundreds of kinds; torch prints which one it is, an explanation, hints, and since
    torch 2.9 a page with an id. Frequent kinds have rules of their own: branches on values
    (CMP002), scalar reads (CMP003), output (CMP004), untraced calls (CMP005), data-dependent
    shapes (CMP006), functions left uncompiled (CMP023).

How to confirm
    `TORCH_LOGS=graph_breaks`; `torch._dynamo.explain(f)(*args)` counts graphs and reasons;
    fullgraph=True makes the first break an error.

How to fix
    Follow the hint and the page of that kind. Where a break cannot be avoided, move it to the
    edge of the compiled region, or compile the parts by themselves.

Limits
    A break that the program asks for (`torch._dynamo.graph_break()`) is a note, and so is one in
    the own forward of DistributedDataParallel or FSDP, which is not meant to be traced. How much
    time a break costs the log does not tell.

References
    - https://meta-pytorch.github.io/compile-graph-break-site/
    - https://docs.pytorch.org/docs/stable/compile/programming_model.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.claim import one_line
from necropsy.evidence.compiles import Compiles
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.frame_skips import FrameSkips
from necropsy.evidence.graph_breaks import GraphBreaks
from necropsy.finding import Finding, Severity
from necropsy.provenance.breaks import OTHER, WANTED, WRAPPER
from necropsy.rule import rule
from necropsy.rules.compile._breaks import of_cause, quoted, tell


@rule("CMP001", "graph-break", Severity.WARNING, general=True)
def check(breaks: GraphBreaks, skips: FrameSkips, exceptions: Exceptions, compiles: Compiles) -> Iterator[Finding]:
    """One finding a line, for breaks of no special kind."""
    for incident in of_cause(breaks, skips, OTHER, WANTED, WRAPPER):
        kind = one_line(incident.told.kind, 140)
        if incident.cause == WRAPPER:
            fact = "DistributedDataParallel (or FSDP) does not let its own forward be traced, which is as it should be"
            cost = "the module inside can be compiled by itself"
            yield from tell(incident, exceptions, compiles, fact, cost=cost, severity=Severity.NOTE)
        elif incident.cause == WANTED:
            fact = f"{quoted(incident.place)} asks for a graph break ({kind or 'torch._dynamo.graph_break()'})"
            yield from tell(incident, exceptions, compiles, fact, severity=Severity.NOTE)
        else:
            reason = f": {kind}" if kind else ", for a reason that the log does not tell"
            yield from tell(
                incident, exceptions, compiles, f"Dynamo cannot trace {quoted(incident.place, 'a line')}{reason}"
            )
