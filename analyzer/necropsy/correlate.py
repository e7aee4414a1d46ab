"""One story per cause: merges copies, hangs consequences under their cause, sorts for reading.

In order: a general finding yields to a specific one of the same event; copies (the same
rule at the same place, on other ranks or repeated) become one with a count; a finding that
shows what an earlier one left becomes its consequence, and lifts the severity of a mere
warning that explains a failure; what a process says after its own fatal failure is
consequence too. The earliest compatible event wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from necropsy.conditions import PEER_ABSENT, PROCESS_DIED, SHARED
from necropsy.finding import Finding, Related, Role, Severity

RELATED_MAX: Final = 8  # anchors kept of merged copies and consequences


def correlate(found: Iterable[Finding], general: frozenset[str]) -> list[Finding]:
    """The findings in reading order, with roles. `general` are the codes that yield to others."""
    findings = _without_last_resorts(_merged(_specific(list(found), general)))
    findings = _explained(_in_time(findings))
    return sorted(findings, key=_reading_order)


def _specific(found: list[Finding], general: frozenset[str]) -> list[Finding]:
    """One finding an event: specific rules before general ones, then the order of codes."""
    claimed = frozenset().union(*(f.claims for f in found))
    found = [f for f in found if not (f.rule in general and f.event in claimed)]
    best: dict[str, Finding] = {}
    loose: list[Finding] = []
    for f in found:
        if not f.event:
            loose.append(f)
            continue
        held = best.get(f.event)
        if held is None or (held.rule in general and f.rule not in general):
            best[f.event] = f
        elif f.rule == held.rule and f.fingerprint != held.fingerprint:
            loose.append(f)
    return [*best.values(), *loose]


def _without_last_resorts(found: list[Finding]) -> list[Finding]:
    """What is said only where nothing else is known goes when something else failed."""
    failed = any(f.severity >= Severity.ERROR and not f.last_resort for f in found)
    return [f for f in found if not (failed and f.last_resort)]


def _merged(found: Sequence[Finding]) -> list[Finding]:
    """Copies of one thing as one finding: first anchor, count, all ranks."""
    groups: dict[tuple[str, str, int, Severity], list[Finding]] = {}
    for f in sorted(found, key=lambda f: f.seq):
        groups.setdefault((f.rule, f.fingerprint, f.attempt, f.severity), []).append(f)
    merged = []
    for copies in groups.values():
        first = copies[0]
        ranks = tuple(sorted({r for f in copies for r in f.ranks}))
        more = tuple(Related(f.anchor, _copy_label(f)) for f in copies[1:])[:RELATED_MAX]
        merged.append(replace(first, ranks=ranks, count=len(copies), related=first.related + more))
    return merged


def _copy_label(f: Finding) -> str:
    return f"the same on {f.process}" if f.process else "again"


def _in_time(findings: list[Finding]) -> list[Finding]:
    """In order of time; a confirming record stands right before the first thing that it explains."""

    def moment(f: Finding) -> tuple[int, float, int]:
        if f.confirms:
            shown = [
                x.seq for x in findings
                if x.attempt == f.attempt and x.shows & _left(f) and (not x.confirms or x.rule != f.rule)
            ]  # fmt: skip
            if shown and min(shown) < f.seq:
                return f.attempt, min(shown) - 0.5, f.seq
        return f.attempt, f.seq, f.seq

    return sorted(findings, key=moment)


def _explained(findings: list[Finding]) -> list[Finding]:
    """Assigns roles; `findings` in order of time."""
    causes: dict[int, int] = {}  # index of a finding -> index of its root
    out = list(findings)
    for i, f in enumerate(findings):
        direct = _cause(i, findings)
        if direct is None:
            continue
        root = causes.get(direct, direct)
        if root == i:
            continue
        causes[i] = root
        role = Role.CASCADE if f.severity >= Severity.ERROR else Role.SYMPTOM
        out[i] = replace(out[i], role=role)
        if f.severity >= Severity.ERROR:
            out[root] = _strengthened(out[root], f)
    # Last, because a cause may have taken its place from its consequence, and the fingerprint is of the place.
    return [replace(f, explained_by=out[causes[i]].fingerprint) if i in causes else f for i, f in enumerate(out)]


def _cause(index: int, findings: Sequence[Finding]) -> int | None:
    """The index of the earliest finding that explains this one, or None."""
    f = findings[index]
    if f.follows:
        return next((i for i, c in enumerate(findings) if c.event == f.follows), None)
    if f.severity is Severity.NOTE:
        return None
    for i, c in enumerate(findings[:index]):
        if c.attempt != f.attempt:
            continue
        same = c.process == f.process or not c.process or not f.process
        left = _left(c) & f.shows
        died = c.severity is Severity.FATAL and c.process == f.process
        if (left and (same or left & SHARED)) or died:
            return i
    return None


def _left(f: Finding) -> frozenset[str]:
    """What a finding leaves; a process that is gone takes no part in collectives either."""
    return f.leaves | {PEER_ABSENT} if PROCESS_DIED in f.leaves else f.leaves


def _strengthened(cause: Finding, effect: Finding) -> Finding:
    """A cause weighs at least what it led to, and quotes it."""
    related = cause.related
    if len(related) < RELATED_MAX and effect.rule != cause.rule:
        related = (*related, Related(effect.anchor, f"led to {effect.rule} {effect.name}"))
    code = cause.code or tuple(replace(p, exactness="function", how="where it surfaced") for p in effect.code)
    return replace(cause, severity=max(cause.severity, effect.severity), role=Role.ROOT, related=related, code=code)


def _reading_order(f: Finding) -> tuple[int, int, int, int]:
    """Roots first, then by severity, then by time; notes last."""
    order = {Role.ROOT: 0, Role.SYMPTOM: 2, Role.CASCADE: 1}[f.role]
    return (order if f.severity > Severity.NOTE else 3, -int(f.severity), f.attempt, f.seq)
