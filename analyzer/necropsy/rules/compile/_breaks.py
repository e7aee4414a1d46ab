"""How the rules about graph breaks say things: one finding an incident, fatal where no break was allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.messages.frame_skipped import FrameSkip
from necropsy_parsers.messages.graph_break import GraphBreak
from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception, from_record, one_line
from necropsy.evidence.compiles import Compiles
from necropsy.evidence.exceptions import ExceptionRow, Exceptions, caught_by_dynamo
from necropsy.evidence.frame_skips import FrameSkips
from necropsy.evidence.graph_breaks import GraphBreaks
from necropsy.finding import Cost, Fact, Finding, Fix, Place, Severity
from necropsy.provenance.breaks import WRAPPER, Incident
from necropsy.provenance.dynamo import claimed_frame
from necropsy.provenance.frames import place_of
from necropsy.rules.compile._exports import exported

_COMMENT: Final = lazily(r"\s{2,}#[^\"']*$")
PAGE: Final = "https://meta-pytorch.github.io/compile-graph-break-site/gb/{id}.html"
# Hints that torch adds to whole classes of breaks; they say nothing about this one.
_BOILERPLATE: Final = lazily(
    r"This graph break (?:is fundamental|may be difficult|may have been caused)|It may be possible to write Dynamo"
    r"|Please (?:report|file) an issue|This is likely to be a Dynamo bug|Dynamo has detected that tracing"
    r"|Your code may result in an error"
)


def of_cause(breaks: GraphBreaks, skips: FrameSkips | None, *causes: str) -> Iterator[Incident]:
    """The incidents of these causes for which no function was left uncompiled: that is another rule's to say."""
    rows = skips.rows if skips is not None else []
    for incident in breaks.incidents:
        if incident.cause in causes and not gives_up(incident, rows):
            yield incident


def gives_up(incident: Incident, skips: Sequence[FrameSkip]) -> bool:
    """Whether a whole function runs eagerly for this break."""
    if any(r.form == "exception" for r in incident.rows):
        return False
    return incident.skips == "frame" or any(same_place(incident.place, s) for s in skips)


def same_place(place: Place | None, skip: FrameSkip) -> bool:
    """Whether a skipped frame names this line as the cause."""
    frame = claimed_frame(skip.frames)
    return place is not None and frame is not None and (frame.file, frame.line) == (place.file, place.line)


def quoted(place: Place | None, otherwise: str = "A line") -> str:
    """The line of code as a sentence's subject."""
    if place is None:
        return f"{otherwise} of the compiled code"
    code = one_line(_COMMENT.sub("", place.text), 90)
    inside = f" in `{place.function}`" if place.function and place.function != "<module>" else ""
    return (f"`{code}`" if code else otherwise) + inside


def subject(incident: Incident, exceptions: Exceptions, otherwise: str = "A line") -> str:
    """The line of an incident as a sentence's subject, from the traceback where torch's message does not name it."""
    place = incident.place or next((p for row in raised(incident, exceptions) for p in row.places[:1]), None)
    return quoted(place, otherwise)


def tell(
    incident: Incident,
    exceptions: Exceptions,
    compiles: Compiles,
    fact: str,
    *fixes: Fix,
    cost: str = "the function is compiled in pieces, with eager code between them",
    severity: Severity = Severity.WARNING,
) -> Iterator[Finding]:
    """The findings about an incident. `fact` is the sentence's beginning, `cost` what the break costs."""
    fixes = (*fixes, *(hints(incident, fixes) if incident.cause != WRAPPER else ()))
    ended = False
    for row in raised(incident, exceptions):
        ended = ended or not row.handled
        end = (
            "and the function is left uncompiled"
            if caught_by_dynamo(row)
            else "which torch.export cannot put into its one graph: the export failed"
            if exported(row)
            else "where no graph break is allowed (fullgraph=True, error_on_graph_break): the compilation failed"
        )
        yield from_exception(
            row,
            f"{fact}, {end}.",
            code=code_of(incident, row.places),
            facts=facts_of(incident),
            fixes=fixes,
        )
    logged = [r for r in incident.rows if r.form != "exception"]
    if ended or not logged:
        return
    yield from_record(
        lead(incident),
        f"{fact}: the graph breaks here{times(incident)}, and {cost}.",
        severity,
        ranks=tuple(sorted(incident.ranks)),
        code=code_of(incident),
        cost=spent(incident, compiles),
        facts=facts_of(incident),
        fixes=fixes,
    )


def lead(incident: Incident) -> GraphBreak:
    """The message on which the finding about an incident rests, an exception only where there is nothing else."""
    logged = [r for r in incident.rows if r.form != "exception"]
    return incident.best if incident.best.form != "exception" or not logged else logged[0]


def spent(incident: Incident, compiles: Compiles) -> Cost:
    """The seconds that compiling the rest of the function took: without the break there is no such piece.

    With those of the analysis that was thrown away for it, where a structured log tells.
    """
    places = {(p.file, p.line) for p in code_of(incident)} | {(f.file, f.line) for r in incident.rows for f in r.frames}
    seconds: dict[tuple[int | None, int | None], float] = {}
    for row in compiles.behind(places):  # recompilations have causes, and rules, of their own
        if row.seconds:
            who = (row.origin.rank, row.origin.pid)
            seconds[who] = seconds.get(who, 0.0) + row.seconds
    for record in {(r.origin.rank, r.origin.pid, r.origin.compile_id): r for r in incident.rows}.values():
        if lost := compiles.lost_to(record):
            who = (record.origin.rank, record.origin.pid)
            seconds[who] = seconds.get(who, 0.0) + lost
    most = max(seconds.values(), default=0.0)  # ranks compile side by side
    return Cost(int(most * 1e9), None, "estimated") if most > 0 else Cost()


def raised(incident: Incident, exceptions: Exceptions) -> list[ExceptionRow]:
    """The exceptions that tell an incident, one a traceback."""
    found: dict[int, ExceptionRow] = {}
    for r in incident.rows:
        if r.form == "exception" and (row := exceptions.said(r)) is not None:
            found.setdefault(row.seq, row)
    return list(found.values())


def times(incident: Incident) -> str:
    """How often, where it was more than once."""
    if incident.count <= 1:
        return ""
    on = f" on {len(incident.ranks)} ranks" if len(incident.ranks) > 1 else ""
    return f" ({incident.count} times{on})"


def code_of(incident: Incident, more: Sequence[Place] = ()) -> tuple[Place, ...]:
    """The user's line, then where in a library it happened and what called it."""
    places = [incident.place] if incident.place is not None else []
    if incident.inner is not None:
        places.append(place_of(incident.inner, how="user code traceback"))
    for place in more:
        if all((p.file, p.line) != (place.file, place.line) for p in places):
            places.append(place)
        elif place.text and places[0].line == place.line and not places[0].text:
            places[0] = replace(places[0], text=place.text)
    return tuple(places[:4])


def facts_of(incident: Incident) -> dict[str, Fact]:
    """What torch said, how often, and in which compilations."""
    told = incident.told
    facts: dict[str, Fact] = {"reason": told.kind or "untold"}
    if told.explanation:
        facts["explanation"] = one_line(told.explanation)
    if told.context and told.context not in told.kind:
        facts["context"] = one_line(told.context)
    if told.gb_id:
        facts["graph-break page"] = PAGE.format(id=told.gb_id.lower())
    if incident.count > 1:
        facts["times"] = incident.count
    if incident.compile_ids:
        facts["compile ids"] = list(incident.compile_ids)[:8]
    if told.operator:
        facts["inside"] = told.operator
    if incident.inner is not None:
        facts["happened in"] = f"{incident.inner.file}:{incident.inner.line}"
    return facts


def hints(incident: Incident, known: Sequence[Fix]) -> Iterator[Fix]:
    """Torch's own hints about this break, and its page, without what is already advised."""
    said = " ".join(f"{f.title} {f.command}" for f in known)
    for hint in incident.told.hints:
        flags = re.findall(r"torch\._dynamo\.config\.\w+", hint)
        if not _BOILERPLATE.match(hint) and not (flags and all(f in said for f in flags)):
            yield Fix(f"Torch's hint: {one_line(hint, 240)}", "investigate")
    if incident.told.gb_id:
        yield Fix(
            f"Read torch's page about this break, {incident.told.gb_id}",
            "investigate",
            "safe",
            PAGE.format(id=incident.told.gb_id.lower()),
        )
