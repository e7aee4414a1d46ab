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
    time a break costs the log does not tell. A log without the artifact (`TORCH_LOGS=dynamo`, `all`) tells the line
    by the name of what is compiled behind it, and no reason: a note.

References
    - https://meta-pytorch.github.io/compile-graph-break-site/
    - https://docs.pytorch.org/docs/stable/compile/programming_model.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.records import Record

from necropsy.claim import from_record, one_line
from necropsy.evidence.compiles import CompileRow, Compiles
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.frame_skips import FrameSkips
from necropsy.evidence.graph_breaks import GraphBreaks
from necropsy.finding import Finding, Fix, Place, Severity
from necropsy.provenance.breaks import OTHER, WANTED, WRAPPER
from necropsy.provenance.dynamo import plain_function, resumed_at
from necropsy.provenance.frames import is_library
from necropsy.rule import rule
from necropsy.rules.compile._breaks import of_cause, subject, tell

UNTOLD: Final = 5  # lines told of a log that says nothing about breaks


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
            fact = f"{subject(incident, exceptions)} asks for a graph break ({kind or 'torch._dynamo.graph_break()'})"
            yield from tell(incident, exceptions, compiles, fact, severity=Severity.NOTE)
        else:
            reason = f": {kind}" if kind else ", for a reason that the log does not tell"
            yield from tell(
                incident, exceptions, compiles, f"Dynamo cannot trace {subject(incident, exceptions, 'a line')}{reason}"
            )
    if not len(breaks):
        yield from _untold(compiles)


def _untold(compiles: Compiles) -> Iterator[Finding]:
    """Breaks of a log without the artifact: the rest of a function is compiled under a name that tells the line."""
    known: dict[tuple[str, str, int], list[CompileRow]] = {}
    for row in compiles:
        line = resumed_at(row.function)
        if line is not None and row.file and not is_library(row.file):
            known.setdefault((row.file, plain_function(row.function), line), []).append(row)
    for (file, function, line), rows in list(known.items())[:UNTOLD]:
        first = rows[0]
        yield from_record(
            Record(first.anchor, origin=first.origin, seq=first.seq, attempt=first.attempt),
            f"Dynamo cut `{function}` at line {line} and compiled its rest by itself: the graph breaks there, for a "
            "reason that this log does not tell.",
            Severity.NOTE,
            code=(Place(file, line, None, function, "", "line", "resumed function"),),
            ranks=tuple(sorted({r.origin.rank for r in rows if r.origin.rank is not None})),
            fixes=(
                Fix(
                    "Let the next run say why: `TORCH_LOGS=graph_breaks`",
                    "env",
                    command="export TORCH_LOGS=graph_breaks",
                ),
            ),
            count=len(rows),
        )
