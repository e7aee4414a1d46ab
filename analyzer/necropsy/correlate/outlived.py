"""Failures of attempts that a later, healthy attempt made up for."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from necropsy.evidence.activity import Activity
from necropsy.finding import Finding, Severity


def outlived(findings: Sequence[Finding], activity: Activity) -> list[Finding]:
    """The findings; those of failed attempts are warnings if a later one, without failure, got much work done."""
    failed = [max(f.attempts, default=f.attempt) for f in findings if f.severity >= Severity.ERROR]
    if not failed or not activity.healthy_after(max(failed)):
        return list(findings)
    return [_warning(f) if f.severity > Severity.WARNING else f for f in findings]


def _warning(f: Finding) -> Finding:
    message = f.message if f.explained_by else f.message.rstrip(".") + "; a later attempt went on."
    return replace(f, severity=Severity.WARNING, message=message)
