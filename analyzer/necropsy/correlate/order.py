"""What came before what: by position within an input, by clock across inputs, or not known.

Hosts' clocks differ by up to a second or so, and loggers print local time, so that a clock
decides only beyond `TOLERANCE`. Stamps without a year are compared with dated ones by month
and day.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.records import Stamp

from necropsy.finding import Finding

TOLERANCE: Final = 1.0  # seconds
LEAP: Final = 2000


def in_time(findings: Sequence[Finding], starts: Mapping[tuple[str, int], Stamp]) -> list[Finding]:
    """In order of attempt and time; `moment` and `began` of each are set (None: no clock in its input)."""
    dated = all(f.time is None or f.time.clock == "date" for f in findings)
    out: list[Finding] = []
    inputs = list(dict.fromkeys(f.anchor.input for f in findings))
    for name in inputs:
        rows = sorted((f for f in findings if f.anchor.input == name), key=lambda f: (f.attempt, f.seq))
        known = [_seconds(f.time, dated) for f in rows]
        last = next((t for t in known if t is not None), None)
        for f, t in zip(rows, known, strict=True):
            last = t if t is not None else last
            out.append(replace(f, moment=last, began=_seconds(starts.get((name, f.attempt)), dated)))
    position = {name: i for i, name in enumerate(inputs)}
    if len(inputs) == 1:  # within one text the text's own order is better than the clocks of its writers
        return sorted(out, key=lambda f: (f.attempt, f.seq))
    return sorted(
        out, key=lambda f: (f.attempt, f.moment if f.moment is not None else 0.0, position[f.anchor.input], f.seq)
    )


def precedes(a: Finding, b: Finding) -> bool | None:
    """Whether `a` came before `b`; None if neither position nor clocks tell."""
    if a.attempts and b.attempts and max(a.attempts) < min(b.attempts):
        return True
    if a.anchor.input == b.anchor.input:
        return a.seq < b.seq
    if a.moment is None or b.moment is None or abs(a.moment - b.moment) <= TOLERANCE:
        return None
    return a.moment < b.moment


def seconds_between(a: Finding, b: Finding) -> float | None:
    """Clock time from `a` to `b`, if both have one."""
    return None if a.moment is None or b.moment is None else b.moment - a.moment


def comparable(a: Finding, b: Finding) -> bool:
    """Whether `a`'s input had begun, by the clocks, when `b` happened; else the two clocks differ (zones, hosts)."""
    return a.began is None or b.moment is None or a.began <= b.moment + TOLERANCE


def _seconds(stamp: Stamp | None, dated: bool) -> float | None:
    if stamp is None or stamp.clock == "day":
        return None
    if dated or stamp.clock != "date":
        return stamp.seconds
    whole = time.gmtime(stamp.seconds)
    return calendar.timegm((LEAP, *whole[1:6], 0, 0, 0)) + stamp.seconds % 1
