"""One story per cause: merges copies, hangs consequences under their cause, sorts for reading.

In order: a general finding yields to a specific one of the same event (`specific`); the rest
is put in order of text and clocks (`order`); copies (the same rule at the same place, on other
ranks, in other attempts or repeated) become one with a count (`merge`); a finding that shows
what an earlier one left becomes its consequence (`causes`). The earliest compatible
event wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from necropsy_parsers.records import Stamp

from necropsy.correlate.causes import explained
from necropsy.correlate.merge import merged
from necropsy.correlate.order import in_time
from necropsy.correlate.specific import specific, without_last_resorts
from necropsy.finding import Finding, Role, Severity


def correlate(
    found: Iterable[Finding], general: frozenset[str], starts: Mapping[tuple[str, int], Stamp]
) -> list[Finding]:
    """The findings in reading order, with roles.

    `general` are the codes that yield to others, `starts` the first clock reading by (input, attempt).
    """
    findings = without_last_resorts(merged(in_time(specific(list(found), general), starts)))
    return sorted(explained(findings), key=_reading_order)


def _reading_order(f: Finding) -> tuple[int, float]:
    """Roots first, worst first, the larger share of time first, then in order of time (the sort is stable)."""
    role = {Role.ROOT: 0, Role.CASCADE: 1, Role.SYMPTOM: 2}[f.role]
    return 10 * (role if f.severity > Severity.NOTE else 3) - int(f.severity), -(f.cost.share or 0.0)
