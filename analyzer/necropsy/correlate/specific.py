"""One finding an event: what a specific rule says, not what a general one would."""

from __future__ import annotations

from necropsy.finding import Finding, Severity


def specific(found: list[Finding], general: frozenset[str]) -> list[Finding]:
    """Specific rules before general ones, then the order of codes; what a finding claims is its alone."""
    claimed = frozenset().union(*(f.claims for f in found))
    best: dict[str, Finding] = {}
    loose: list[Finding] = []
    for f in found:
        if f.rule in general and f.event in claimed:
            continue
        held = best.get(f.event)
        if not f.event:
            loose.append(f)
        elif held is None or (held.rule in general and f.rule not in general):
            best[f.event] = f
        elif f.rule == held.rule and f.fingerprint != held.fingerprint:
            loose.append(f)
    return [*best.values(), *loose]


def without_last_resorts(found: list[Finding]) -> list[Finding]:
    """What is said only where nothing else is known goes when something else failed."""
    failed = any(f.severity >= Severity.ERROR and not f.last_resort for f in found)
    return [f for f in found if not (failed and f.last_resort)]
