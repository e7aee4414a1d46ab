"""Numbers as logs print them, where the text may be torn or made up: a number, or None, and never an exception.

Patterns of digits match what `int` and `float` refuse: CPython converts no more than 4,300 digits, two writers' bytes
run together to `0.050.`, and `isdigit` is true of superscripts.
"""

from __future__ import annotations

import math
from typing import Final

MOST_DIGITS: Final = 18  # fits in 64 bits; no count of bytes or launches is longer
_MOST: Final = 10**MOST_DIGITS - 1


def whole(text: str) -> int | None:
    """The integer of decimal digits, with or without a minus; None for anything else, and beyond 18 digits."""
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) <= MOST_DIGITS else None


def natural(digits: str) -> int:
    """The integer of digits that a pattern has found, with or without a minus; beyond 18 digits the largest of 18.

    For lines, ranks, dimensions, where there must be a number: none of them is so long, and `int` would raise.
    """
    if len(digits) <= MOST_DIGITS:
        return int(digits)
    value = int(digits.lstrip("-0")[: MOST_DIGITS + 1] or "0")
    return max(-_MOST, min(_MOST, -value if digits.startswith("-") else value))


def decimal(text: str) -> float | None:
    """The finite number that `text` is, else None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
