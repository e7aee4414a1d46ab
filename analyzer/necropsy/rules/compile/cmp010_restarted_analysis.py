"""Compilation began anew, and the time before was lost

What it means
    torch.compile traced a function, met something that it had assumed otherwise, threw the
    trace away and began again. The seconds before the restart bought nothing.

Why it happens
    Mostly a graph break: Dynamo traces up to it, then once more with the knowledge that the
    graph ends there. A break late in a long function costs most. Other reasons are values that
    turned out not to be constant.

How to confirm
    `restart_reasons` and `dynamo_time_before_restart_s` of `compilation_metrics` in the
    structured log (TORCH_TRACE) name the reason and the seconds of each compilation.

How to fix
    Remove the graph break, or move it to the beginning or out of the compiled function. Compile
    smaller pieces: less is thrown away.

Limits
    The structured log is needed. Restarts that cost little are not told. A compilation that
    failed is told by CMP011, not here. Where one graph break is the only one in these
    compilations, its finding leads with the seconds, and this one hangs under it.

References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    - torch/_dynamo/convert_frame.py (`RestartAnalysis`), torch 2.4 to 2.13
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from necropsy_parsers.structured.kinds.metrics import CompilationMetrics

from necropsy.claim import event_of_record, from_record, one_line
from necropsy.evidence.compile_metrics import CompileMetrics
from necropsy.evidence.graph_breaks import GraphBreaks
from necropsy.finding import Cost, Finding, Fix, Place, Related, Severity
from necropsy.provenance.breaks import Incident
from necropsy.provenance.dynamo import plain_function
from necropsy.provenance.frames import is_library
from necropsy.rule import rule
from necropsy.rules.compile._breaks import lead


class Thresholds(Struct, frozen=True):
    """Seconds lost in one process for one function: told as a note, told as a warning."""

    note: float = 0.5
    warning: float = 5.0


@rule("CMP010", "restarted-analysis", Severity.WARNING, settings=Thresholds)
def check(metrics: CompileMetrics, breaks: GraphBreaks, t: Thresholds) -> Iterator[Finding]:
    """One finding a function whose restarts cost enough."""
    groups: dict[tuple[str, int | None], list[CompilationMetrics]] = {}
    for row in metrics:
        if row.restarts and not row.failure and row.before_restart:
            groups.setdefault((row.file, row.line), []).append(row)
    for rows in groups.values():
        lost = _most(rows)
        if lost >= t.note:
            yield _finding(rows, lost, _only(rows, breaks), Severity.WARNING if lost >= t.warning else Severity.NOTE)


def _most(rows: Sequence[CompilationMetrics]) -> float:
    """Seconds lost in the process that lost most: ranks compile side by side."""
    lost: dict[tuple[int | None, int | None], float] = {}
    for r in rows:
        who = (r.origin.rank, r.origin.pid)
        lost[who] = lost.get(who, 0.0) + r.before_restart
    return max(lost.values())


def _only(rows: Sequence[CompilationMetrics], breaks: GraphBreaks) -> Incident | None:
    """The only break in these compilations, or None."""
    ids = {r.compile_id for r in rows}
    found: dict[tuple[str, int | None], Incident] = {}
    for incident in breaks.incidents:
        if incident.place is not None and ids & {i.split("_")[0] for i in incident.compile_ids}:
            found[incident.place.file, incident.place.line] = incident
    return next(iter(found.values())) if len(found) == 1 else None


def _finding(rows: Sequence[CompilationMetrics], lost: float, broken: Incident | None, severity: Severity) -> Finding:
    first = max(rows, key=lambda r: r.before_restart)
    name = plain_function(first.function)
    own = Place(first.file, first.line, None, name, "", "function", "compilation metrics")
    code = [broken.place] if broken is not None and broken.place is not None else []
    if first.file and not is_library(first.file):
        code.append(own)
    reasons = list(dict.fromkeys(one_line(reason, 140) for r in rows for reason in r.restarts))
    times = f"{len(rows)} times" if len(rows) > 1 else "once"
    return from_record(
        first,
        f"Compiling `{name}` began anew {times}: {lost:.1f} s of analysis were thrown away ({reasons[0]}).",
        severity,
        follows=event_of_record(lead(broken)) if broken is not None else "",
        code=tuple(code),
        ranks=tuple(sorted({r.origin.rank for r in rows if r.origin.rank is not None})),
        facts={"reasons": reasons[:8], "lost (s)": round(lost, 2), "compilations": [r.compile_id for r in rows][:16]},
        cost=Cost(int(lost * 1e9), None, "measured"),
        fixes=(
            Fix("Remove the graph break, or move it to the start or out of the compiled function", "code"),
            Fix("Compile smaller pieces, so that less is traced twice", "code"),
        ),
        related=tuple(Related(r.anchor, f"metrics of {r.compile_id}") for r in rows if r is not first)[:3],
        count=len(rows),
    )
