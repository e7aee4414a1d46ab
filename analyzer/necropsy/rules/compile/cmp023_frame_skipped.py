"""torch.compile left a whole function uncompiled

What it means
    Dynamo gave this function up: all of it runs eagerly from here on, in every call, without an
    error. What it calls may still be compiled by itself.

Why it happens
    A graph break inside a `for` or `while` loop, a `try` block or a context manager cannot be
    resumed from; the compiler failed and `suppress_errors` hid it; a `TorchDispatchMode`
    (a FLOP counter, a profiler's mode) was active during the call. CMP011 tells why the compiler
    failed, where the log says it.

How to confirm
    `TORCH_LOGS=graph_breaks` (since torch 2.11), or `TORCH_LOGS=dynamo` before, where the skip is
    told at level INFO. The profiler shows eager operators inside the function.

How to fix
    Remove the break that the finding names, or move the loop out of the compiled function and
    compile its body. A suppressed error shows with `torch._dynamo.config.suppress_errors =
    False`.

Limits
    Functions that Dynamo skips on purpose (library code, functions without tensors) are not
    reported.

References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb7000.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.messages.frame_skipped import FrameSkip

from necropsy.claim import from_record, one_line
from necropsy.evidence.compile_failures import CompileFailures
from necropsy.evidence.frame_skips import FrameSkips
from necropsy.evidence.graph_breaks import GraphBreaks
from necropsy.evidence.recompile_limits import RecompileLimits
from necropsy.finding import Fact, Finding, Fix, Place, Severity
from necropsy.provenance.breaks import BRANCH, LIMIT, OUTPUT, SCALAR, SHAPE, Incident, cause_of
from necropsy.provenance.dynamo import claimed_frame, plain_function
from necropsy.provenance.frames import is_library, place_of
from necropsy.rule import rule
from necropsy.rules.compile._breaks import code_of, facts_of, gives_up, hints, quoted, same_place, times

ABOUT: Final = {
    BRANCH: "a branch on a tensor's value",
    SCALAR: "a tensor's value read into Python (`.item()`)",
    OUTPUT: "a call that prints or logs",
    SHAPE: "an output whose shape depends on the data",
}
MOVE: Final = Fix("Remove the break at this line, or compile the loop's body instead of the function around it", "code")
SHOW: Final = Fix(
    "Let the compiler's error through", "config", "unsafe", "torch._dynamo.config.suppress_errors = False"
)
MODE: Final = Fix("Leave the dispatch mode (FLOP counter, debug mode) while the compiled function runs", "code")


@rule("CMP023", "frame-skipped", Severity.ERROR)
def check(
    breaks: GraphBreaks, skips: FrameSkips, failures: CompileFailures, limits: RecompileLimits
) -> Iterator[Finding]:
    """One finding a cause: the break that made Dynamo give a function up, or the function itself."""
    limited = {(r.file, plain_function(r.function)) for r in limits if r.function}
    told: set[int] = {f.seq for f in failures}  # CMP011 says why they failed
    named: set[tuple[str, str]] = {(f.frame.file, plain_function(f.frame.function)) for f in failures if f.frame}
    for incident in breaks.incidents:
        if incident.cause == LIMIT or not gives_up(incident, skips.rows):
            continue
        mine = [s for s in skips if same_place(incident.place, s)]
        told |= {s.seq for s in mine}
        function, start = _frame_of(incident, mine)
        named.add((start.file if start else incident.place.file if incident.place else "", function))
        yield _by_break(incident, function, start)
    groups: dict[tuple[str, str, int | None], list[FrameSkip]] = {}
    for skip in skips:
        frame = claimed_frame(skip.frames)
        if skip.seq in told or (skip.file, plain_function(skip.function)) in named:
            continue
        own = (skip.file, plain_function(skip.function))
        if cause_of(skip.reason, "", "") == LIMIT or (not skip.reason and own in limited):
            continue  # CMP008 says it with what changed
        if is_library(skip.file) and (frame is None or is_library(frame.file)):
            continue  # Dynamo gives up many functions of torch, and nobody can change them
        groups.setdefault((skip.file, plain_function(skip.function), None), []).append(skip)
    for rows in groups.values():
        yield _by_itself(rows)


def _frame_of(incident: Incident, skips: Sequence[FrameSkip]) -> tuple[str, Place | None]:
    """The function given up, and where it starts."""
    told = next((r.skipped for r in incident.rows if r.skipped is not None), None)
    if told is None and skips:
        told = (skips[0].function, skips[0].file, skips[0].line)
    if told is None:
        return incident.place.function if incident.place else "", None
    function = plain_function(told[0])
    where = Place(told[1], told[2] or None, None, function, "", "function", "frame info")
    return function, where if told[2] else None


def _by_break(incident: Incident, function: str, start: Place | None) -> Finding:
    """A function given up for a graph break."""
    looped = any("loop" in f"{r.kind} {r.skips}" for r in incident.rows) or incident.best.skipped is not None
    what = ABOUT.get(incident.cause) or one_line(incident.told.kind, 100) or "a graph break"
    where = " inside a loop" if looped else ""
    name = f"`{function}`" if function else "The function"
    code = code_of(incident, [start] if start is not None else [])
    fixes = (MOVE,)
    return from_record(
        incident.best,
        f"{name} {_left(incident)}: {quoted(incident.place)} breaks the graph{where} ({what}){_skipped(incident)}.",
        Severity.ERROR,
        ranks=tuple(sorted(incident.ranks)),
        code=code,
        facts=facts_of(incident) | {"skipped frame": function},
        fixes=(*fixes, *hints(incident, fixes)),
    )


def _refused(incident: Incident) -> bool:
    """Whether only the traceback in a structured log tells of it: perhaps no break was allowed (fullgraph=True)."""
    return all(r.origin.artifact == "dynamo_error" for r in incident.rows)


def _left(incident: Incident) -> str:
    if _refused(incident):
        return f"could not be compiled{times(incident)}"
    return f"is left uncompiled and runs eagerly from here on{times(incident)}"


def _skipped(incident: Incident) -> str:
    if _refused(incident):
        return "; where breaks are allowed it runs eagerly, with fullgraph=True that is an error"
    return ", and Dynamo skips the frame"


def _by_itself(rows: Sequence[FrameSkip]) -> Finding:
    """A function given up for a reason that no break tells."""
    best = min(rows, key=lambda r: (not r.frames, not r.reason, r.kind == "error" and not r.line, r.seq))
    frame = claimed_frame(best.frames)
    function = plain_function(best.function)
    own = Place(best.file, best.line or None, None, function, "", "function", "frame info")
    places = [place_of(frame, how="user code traceback")] if frame is not None else []
    if best.line and not is_library(best.file):
        places.append(own)
    why, fix = _reason(best)
    facts: dict[str, Fact] = {"skipped frame": function, "reason": one_line(best.reason) or best.kind}
    if len(rows) > 1:
        facts["times"] = len(rows)
    return from_record(
        best,
        f"`{function}` is left uncompiled and runs eagerly from here on: {why}, and Dynamo skips the frame.",
        Severity.ERROR,
        ranks=tuple(sorted({r.origin.rank for r in rows if r.origin.rank is not None})),
        code=tuple(places),
        facts=facts,
        fixes=(fix,),
    )


def _reason(skip: FrameSkip) -> tuple[str, Fix]:
    """Why, in words, and what helps."""
    if skip.kind == "loop":
        return "it breaks the graph inside a loop", MOVE
    if skip.kind == "mode":
        return "a TorchDispatchMode was active during the call", MODE
    if skip.kind == "error":
        return (
            f"the compiler failed ({one_line(skip.reason, 120) or 'error untold'}) and the error was suppressed",
            SHOW,
        )
    reason = one_line(skip.reason, 120)
    return f"it breaks the graph where tracing cannot be resumed{f' ({reason})' if reason else ''}", MOVE
