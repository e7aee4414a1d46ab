"""Times of a trace in whole nanoseconds.

Traces write microseconds with up to three decimals. As doubles, those relative to
`baseTimeNanoseconds` are exact if the fraction is rounded alone (`rint(us * 1000)` is
1 ns off in 0.35 % of rows); absolute ones (1.7e15 us, torch 2.3 and older) are off by
up to 125 ns in nearly every row and must be read from their digits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from necropsy_parsers.numbers import MOST_DIGITS

Ns = NDArray[np.int64]

EXACT_BELOW: Final = 2.0**43  # microseconds; a double holds eight binary places of them
_DECIMAL: Final = re.compile(rb'^"?\s*(-?)(\d+)(?:[.,](\d*))?\s*"?$')
NO_TIME: Final = -(1 << 62)
_LONGEST: Final = 24 * 3600 * 10**9  # ns; no event of a profiled window is longer than a day


def plausible(start: Ns, length: Ns) -> NDArray[np.bool_]:
    """Which events have a time and a length that can be."""
    fits: NDArray[np.bool_] = (start != NO_TIME) & (length != NO_TIME) & (length <= _LONGEST)
    return fits


def from_doubles(us: NDArray[np.float64]) -> Ns:
    """Microseconds as ns; what is no time (NaN, beyond the year 2112) is `NO_TIME`."""
    fits = np.isfinite(us) & (np.abs(us) < 2.0**52)
    if not fits.all():
        return np.where(fits, from_doubles(np.where(fits, us, 0.0)), NO_TIME)
    whole = np.floor(us)
    return whole.astype(np.int64) * 1000 + np.rint((us - whole) * 1000).astype(np.int64)


def from_digits(us: Sequence[bytes]) -> Ns:
    """Microseconds as written (`1712195495505582.988`, `"5120.5"`) as ns."""
    try:
        if all(v[-4:-3] == b"." for v in us):
            return np.array([int(v.replace(b".", b"")) for v in us], np.int64)
    except (ValueError, OverflowError):
        pass
    return np.array([one_from_digits(v) for v in us], np.int64)


def one_from_digits(written: bytes) -> int:
    """One time in ns; `NO_TIME` for what is no number or beyond the year 2112."""
    if (m := _DECIMAL.match(written)) is not None and len(m[2]) <= MOST_DIGITS:
        ns = int(m[2]) * 1000 + int(((m[3] or b"") + b"000")[:3])
        return (-ns if m[1] else ns) if ns < 1 << 62 else NO_TIME
    try:
        us = float(written.strip(b'"'))
    except ValueError:
        return NO_TIME
    return int(us * 1000) if abs(us) < 2.0**52 else NO_TIME
