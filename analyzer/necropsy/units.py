"""Numbers as people read them: bytes, shares."""

from __future__ import annotations


def human_bytes(count: float) -> str:
    """`count` bytes in the unit that torch would use: `26.49 GiB`, `44.69 MiB`, `512 bytes`."""
    for unit, factor in (
        ("EiB", 2**60),
        ("PiB", 2**50),
        ("TiB", 2**40),
        ("GiB", 2**30),
        ("MiB", 2**20),
        ("KiB", 2**10),
    ):
        if abs(count) >= factor:
            return f"{count / factor:.2f} {unit}"
    return f"{count:.0f} bytes"


def percent(share: float) -> str:
    """A share as a whole percentage: 0.824 -> `82%`."""
    return f"{100 * share:.0f}%"
