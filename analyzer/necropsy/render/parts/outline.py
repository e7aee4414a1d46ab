"""Report -> the order in which it is told; text and Markdown both follow it.

Root causes with what follows from each, outward signs, notes; then the rules that
could not be judged, grouped by what would supply their evidence; then lost input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from necropsy_parsers.issues import DATA_LOSS, ERROR, NOTICE, ParseIssue

from necropsy.finding import Finding, Place, Role, Severity
from necropsy.render import CONTEXT
from necropsy.report import Excerpt, Report, Run

_ISSUE_ORDER: Final = {ERROR: 0, DATA_LOSS: 1, NOTICE: 2}
_ABOUT_INPUTS: Final = "INP"  # the family of rules that judge the inputs, not the run
_QUOTED: Final = 3  # lines of a quoted statement


class Fold(Struct, frozen=True):
    """Findings that read the same but for the rank: shown as one line."""

    first: Finding
    ranks: tuple[int, ...]
    count: int


class Story(Struct):
    """A root cause and what follows from it."""

    root: Finding
    followers: list[Finding] = field(default_factory=list)


class Gap(Struct, frozen=True):
    """Rules that miss the same evidence, and what would supply it."""

    supply: str
    tables: tuple[str, ...]
    rules: tuple[str, ...]


class SourceRow(Struct, frozen=True):
    """A numbered source line; `digits` is the width of the widest number."""

    number: int
    text: str
    marked: bool
    digits: int


_UNKNOWN: Final = "text/unknown-error"


class Outline(Struct, frozen=True):
    """What to tell, in order.

    `orphans` follow from a cause that is not in the report. `inputs` are findings about
    the inputs themselves; `issues` are those that no such finding tells. `lead` is the
    consequence to start with where something failed and no root cause is at hand. `unknown`
    are errors that nobody understood, to be told where nothing else is.
    """

    stories: list[Story]
    orphans: list[Finding]
    symptoms: list[Finding]
    notes: list[Finding]
    gaps: list[Gap]
    inputs: list[Finding]
    issues: list[ParseIssue]
    unknown: list[ParseIssue]
    incomplete: bool
    lead: Finding | None


def outline(report: Report) -> Outline:
    """Sort the report's parts into the order of telling."""
    stories = [Story(f) for f in report.roots() if f.severity > Severity.NOTE]
    cascades = [f for f in report.findings if f.role is Role.CASCADE]
    owner = _owners(stories, cascades)
    orphans: list[Finding] = []
    for finding in cascades:
        story = owner.get(finding.explained_by) or (stories[0] if len(stories) == 1 else None)
        (story.followers if story else orphans).append(finding)
    signs = [f for f in report.findings if f.role is Role.SYMPTOM]
    inputs = [f for f in signs if f.rule.startswith(_ABOUT_INPUTS)]
    symptoms = [f for f in signs if not f.rule.startswith(_ABOUT_INPUTS)]
    told = {f.event for f in inputs}
    failed = [] if stories else orphans + [f for f in symptoms if f.severity >= Severity.ERROR]
    lead = failed[0] if failed else None
    return Outline(
        stories=stories,
        orphans=[f for f in orphans if f is not lead],
        symptoms=[f for f in symptoms if f is not lead],
        notes=[f for f in report.roots() if f.severity is Severity.NOTE],
        gaps=gaps(report),
        inputs=inputs,
        issues=sorted(
            (i for i in report.issues if i.level in _ISSUE_ORDER and f"{i.kind}@{i.input}" not in told),
            key=lambda i: _ISSUE_ORDER[i.level],
        ),
        unknown=[i for i in report.issues if i.kind == _UNKNOWN] if not stories and lead is None else [],
        incomplete=any(i.level in (ERROR, DATA_LOSS) for i in report.issues),
        lead=lead,
    )


def _owners(stories: list[Story], cascades: list[Finding]) -> dict[str, Story]:
    """Fingerprint -> the story it belongs to, for root causes and for what follows from them step by step."""
    owner = {s.root.fingerprint: s for s in reversed(stories)}
    waiting = {f.fingerprint: f.explained_by for f in cascades}
    for start in waiting:
        chain: dict[str, None] = {}
        cause = start
        while cause in waiting and cause not in owner and cause not in chain:
            chain[cause] = None
            cause = waiting[cause]
        if cause in owner:
            owner |= dict.fromkeys(chain, owner[cause])
    return owner


def source_rows(where: Place, excerpt: Excerpt) -> list[SourceRow]:
    """The lines around a place, the claimed ones marked; else the line as the input quoted it."""
    rows = list(excerpt(where, *CONTEXT))
    if not rows and where.text.strip() and where.line is not None:
        rows = [(where.line + n, text) for n, text in enumerate(where.text.strip("\n").splitlines()[:_QUOTED])]
    while rows and not rows[-1][1].strip():
        rows.pop()
    exact = where.exactness in ("line", "statement") and where.line is not None
    marked = range(where.line or 0, (where.end_line or where.line or 0) + 1) if exact else range(0)
    digits = max((len(str(number)) for number, _ in rows), default=1)
    return [SourceRow(number, text.rstrip(), number in marked, digits) for number, text in rows]


def fold(findings: Iterable[Finding]) -> list[Fold]:
    """Findings of one rule at one place become one entry, in order of first appearance."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for f in findings:
        place = f.code[0] if f.code else None
        key = (f.rule, f.severity, (place.file, place.line) if place else f.message)
        groups.setdefault(key, []).append(f)
    return [
        Fold(g[0], tuple(sorted({r for f in g for r in f.ranks})), sum(f.count for f in g)) for g in groups.values()
    ]


def gaps(report: Report) -> list[Gap]:
    """Not-evaluated rules grouped by what to supply; the most useful supply first."""
    groups: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for row in report.not_evaluated:
        tables, rules = groups.setdefault(row.supply, ({}, {}))
        tables[row.missing] = None
        rules[row.rule] = None
    found = [Gap(supply, tuple(tables), tuple(rules)) for supply, (tables, rules) in groups.items()]
    return sorted(found, key=lambda g: -len(g.rules))


def like_ranks(runs: Sequence[Run]) -> list[Run]:
    """Ranks that ended alike in one row each, roots first; the last words are those of the row's first rank."""
    rows: dict[tuple[str, str, str], Run] = {}
    for run in runs:
        key = (run.ended, run.first_error, run.role)
        held = rows.get(key)
        rows[key] = run if held is None else replace(held, ranks=(*held.ranks, *run.ranks))
    order = {"root": 0, "": 1, "cascade": 2}
    return sorted(rows.values(), key=lambda r: order.get(r.role, 1))
