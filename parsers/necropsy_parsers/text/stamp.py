"""Clock readings as loggers print them, to seconds.

Three clocks are kept apart because they cannot be compared: full dates, glog's month
and day without a year, and times of day.
"""

from __future__ import annotations

import calendar
import re
from functools import lru_cache
from typing import Final

from necropsy_parsers.records import Stamp

CLOCKS: Final = (
    re.compile(
        r"\[?(?P<y>\d{4})[-/.](?P<mo>\d\d?)[-/.](?P<d>\d\d?)[ T_](?P<h>\d\d?):(?P<mi>\d\d):(?P<s>\d\d)"
        r"(?:[.,](?P<f>\d+))?(?:Z|[+-]\d\d:?\d\d)?\]?"
    ),
    re.compile(
        r"\[?(?P<mo>\d\d)/(?P<d>\d\d)/(?P<y>\d{2,4})[- ](?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d+))?\]?"
        r"(?: [AP]M)?"
    ),
    re.compile(r"\[?(?P<mo>\d\d)-(?P<d>\d\d) (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d+))?\]?"),
    re.compile(
        r"\[(?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d+))?\]"
        r"|(?P<h2>\d\d):(?P<mi2>\d\d):(?P<s2>\d\d)(?:[.,](?P<f2>\d+))?(?=[ |])"
    ),
)
_GLOG: Final = re.compile(r"(?P<mo>\d{1,2})(?P<d>\d\d) (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)\.(?P<f>\d+)$")
_JOURNAL: Final = re.compile(r"(?P<mon>[A-Z][a-z]{2}) (?P<d>[ \d]\d) (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)$")
_MONTHS: Final = {name: i for i, name in enumerate(calendar.month_abbr) if name}
_LEAP: Final = 2000  # the year given to stamps that have none: February 29 exists


def parse_stamp(text: str) -> Stamp | None:
    """The stamp that `text` starts with, or None."""
    for pattern in (*CLOCKS, _GLOG, _JOURNAL):
        if (m := pattern.match(text)) is not None:
            return stamp_of(m)
    return None


def glog_stamp(text: str) -> Stamp | None:
    """The reading of `1129 12:21:04.426000`, or None; a log holds many of one minute."""
    minute, colon, seconds = text.rpartition(":")
    start = _glog_minute(minute) if colon else None
    try:
        return None if start is None else Stamp(start + float(seconds), "no-year", text)
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _glog_minute(text: str) -> float | None:
    stamp = parse_stamp(text + ":00.0")
    return None if stamp is None else stamp.seconds


@lru_cache(maxsize=64)
def _midnight(year: int, month: int, day: int) -> int:
    return calendar.timegm((year, month, day, 0, 0, 0, 0, 0, 0))


def _date(m: re.Match[str]) -> Stamp | None:
    y, mo, d, h, mi, s, f = m.groups()
    year, month = int(y), int(mo)
    clock = int(h) * 3600 + int(mi) * 60 + int(s) + (float("0." + f) if f else 0.0)
    if not month:
        return Stamp(clock, "day", m[0].strip("[] "))
    year += 2000 if year < 100 else 0
    try:
        return Stamp(_midnight(year, month, int(d)) + clock, "date", m[0].strip("[] "))
    except ValueError:
        return None


def stamp_of(m: re.Match[str]) -> Stamp | None:
    """The reading of a match of one of `CLOCKS`."""
    if m.re is CLOCKS[0]:  # by far the most common one
        return _date(m)
    part = {k.rstrip("2"): v for k, v in m.groupdict().items() if v is not None}
    fraction = float("0." + part["f"]) if part.get("f") else 0.0
    clock = int(part["h"]) * 3600 + int(part["mi"]) * 60 + int(part["s"]) + fraction
    month = _MONTHS.get(part["mon"]) if "mon" in part else int(part.get("mo", 0))
    if not month:
        return Stamp(clock, "day", m[0].strip("[] "))
    year = int(part["y"]) if "y" in part else None
    if year is not None and year < 100:
        year += 2000
    try:
        days = _midnight(year or _LEAP, month, int(part["d"]))
    except ValueError:
        return None
    return Stamp(days + clock, "date" if year else "no-year", m[0].strip("[] "))
