"""Numbers and units as ncu prints them, to plain numbers in base units.

    1,234.56   1.234,56   1 234,56   1'234.56     thousands and decimals of the locale that printed them
    us, usecond, Gbyte/s, Gbyte/second, Ghz, cycle/nsecond, Kbyte/block, %/Kbyte

Base units are ns, byte, Hz, and per second for rates. Prefixes are powers of 1,000 (a 16,384-byte carve-out prints as
16.38 Kbyte). Before 2023 ncu wrote `usecond` and `cycle/nsecond` for `us` and `Ghz`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_SPACES: Final = "\u00a0\u202f\u2009 "  # no-break, narrow no-break (fr), thin, plain
_NUMBER: Final = re.compile(r"-?\d[\d.,'’\u00a0\u202f\u2009 ]*(?:[eE][+-]?\d+)?")
_TIMES: Final = {
    "ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "msecond": 1e6,
    "s": 1e9, "second": 1e9, "sec": 1e9, "nseconds": 1.0, "useconds": 1e3, "mseconds": 1e6, "seconds": 1e9,
}  # fmt: skip
_PREFIXES: Final = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_SCALED: Final = ("byte", "hz", "bit", "cycle", "inst", "sector", "request", "thread", "warp", "block")
_COUNTS: Final = re.compile(r"(?P<prefix>[kmgtp])(?P<binary>i?)(?P<unit>" + "|".join(_SCALED) + r")s?$", re.I)


class Numbers:
    """Reads the numbers of one input, whose locale its unambiguous numbers tell."""

    def __init__(self, decimal: str = ".") -> None:
        self.decimal = decimal

    @classmethod
    def of(cls, texts: Iterable[str]) -> Numbers:
        """The reader for an input that holds these numbers; a point for decimals where none of them tells."""
        point = comma = 0
        for text in texts:
            sign = _tells(text)
            point += sign == "."
            comma += sign == ","
        return cls("," if comma > point else ".")

    def read(self, text: str) -> float | None:
        """The number, or None: `n/a`, `no data`, `nan` and words are no numbers.

        Values of instances behind it (`16 (32; 0)`, `--print-metric-instances`) are passed over.
        """
        text = text.partition(" (")[0].strip()
        if not _NUMBER.fullmatch(text):
            return None
        group = "." if self.decimal == "," else ","
        plain = text.translate({ord(c): None for c in (*_SPACES, group, "'", "’")}).replace(self.decimal, ".")
        try:
            value = float(plain)
        except ValueError:
            return None
        return value if math.isfinite(value) else None


def _tells(text: str) -> str:
    """The decimal sign of a number that can be read in one way only, else ""."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return ""
    points, commas = text.count("."), text.count(",")
    if points and commas:
        return "." if text.rfind(".") > text.rfind(",") else ","
    sign, other = (".", ",") if points else (",", ".")
    count = points or commas
    if not count:
        return ""
    if count > 1:
        return other
    if any(c in text for c in (*_SPACES, "'", "’")):
        return sign  # groups are already told apart by something else
    whole, _, rest = text.partition(sign)
    whole = whole.lstrip("-")
    return sign if not re.match(r"\d{3}$", rest) or whole == "0" or len(whole) > 3 else ""


@lru_cache(maxsize=512)
def factor(unit: str) -> float:
    """By what a value in `unit` is multiplied for base units; 1 for units that are base already, or unknown."""
    unit = unit.strip().strip("()")
    if not unit or unit == "%":
        return 1.0
    numerator, _, denominator = unit.partition("/")
    scale = _scale(numerator)
    if not denominator:
        return scale
    if denominator in _TIMES:
        return scale * 1e9 / _TIMES[denominator]
    return scale / _scale(denominator)


def is_rate(unit: str) -> bool:
    """Whether it is bytes in a time."""
    numerator, _, denominator = unit.strip().partition("/")
    return denominator in _TIMES and numerator.lower().endswith("byte")


def _scale(unit: str) -> float:
    if unit in _TIMES:
        return _TIMES[unit]
    if (m := _COUNTS.match(unit)) is not None:
        power = 1024.0 if m["binary"] else 1000.0
        return float(power ** (1 + "kmgtp".index(m["prefix"].lower())))
    return 1.0
