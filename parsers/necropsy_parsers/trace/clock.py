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

Ns = NDArray[np.int64]

EXACT_BELOW: Final = 2.0**43  # microseconds; a double holds eight binary places of them
_DECIMAL: Final = re.compile(rb'^"?\s*(-?)(\d+)(?:[.,](\d*))?\s*"?$')
_LARGEST: Final = 1 << 62


def from_doubles(us: NDArray[np.float64]) -> Ns:
    """Microseconds as ns; what is no number is 0."""
    us = np.where(np.isfinite(us) & (np.abs(us) < 2.0**52), us, 0.0)
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
    """One time in ns; 0 for what is no number."""
    if (m := _DECIMAL.match(written)) is not None:
        ns = int(m[2]) * 1000 + int(((m[3] or b"") + b"000")[:3])
        return min(-ns if m[1] else ns, _LARGEST)
    try:
        us = float(written.strip(b'"'))
    except ValueError:
        return 0
    return int(us * 1000) if abs(us) < EXACT_BELOW * 1000 else 0
