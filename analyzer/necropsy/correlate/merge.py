"""Copies of one thing become one finding: first anchor, count, all ranks, all attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from necropsy.finding import Finding, Related, Severity

RELATED_MAX: Final = 8  # anchors kept of merged copies and consequences


def merged(found: Sequence[Finding]) -> list[Finding]:
    """Findings with copies counted, the first standing for all; the same crash in every attempt is one finding."""
    groups: dict[tuple[str, str, Severity], list[Finding]] = {}
    for f in found:
        groups.setdefault((f.rule, f.fingerprint, f.severity), []).append(f)
    return [_one(copies) for copies in groups.values()]


def _one(copies: list[Finding]) -> Finding:
    first = copies[0]
    more = tuple(Related(f.anchor, _label(f, first)) for f in copies[1:])
    return replace(
        first,
        ranks=tuple(sorted({r for f in copies for r in f.ranks})),
        count=len(copies),
        related=(first.related + more)[:RELATED_MAX],
        processes=tuple(dict.fromkeys(p for f in copies for p in (f.process, *f.processes))),
        attempts=tuple(sorted({f.attempt for f in copies})),
    )


def _label(copy: Finding, first: Finding) -> str:
    if copy.attempt != first.attempt:
        return f"again in attempt {copy.attempt + 1}"
    return f"the same on {copy.process}" if copy.process else "again"
