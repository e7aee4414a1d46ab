"""How evenly a launch keeps the units of one kind at work: what the average one idles while the busiest works."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from necropsy.evidence.ncu_kernels import NcuKernel
    from necropsy.evidence.ncu_rules import NcuRule

SM, SCHEDULER, L2_SLICE, CHANNEL = "sm", "smsp", "lts", "dram"
# Unit of the metrics -> its name in NVIDIA's messages, which pages print in place of maxima.
_TOLD: Final = {SM: r"SMs", SCHEDULER: r"SMSPs", L2_SLICE: r"L2 \w+", CHANNEL: r"DRAM \w+"}
_ABOVE: Final = re.compile(r"Maximum instance value is (\d+(?:[.,]\d+)?)% above the average")


def lost(row: NcuKernel, unit: str, heard: Iterable[NcuRule]) -> float | None:
    """Part (0 to 1) of the busiest unit's time for which the average one has no work; None where nothing tells."""
    mean, most = row.value(f"{unit}__cycles_active.avg"), row.value(f"{unit}__cycles_active.max")
    if mean is not None and most:
        return max(0.0, 1 - mean / most)
    for r in heard:
        if re.match(rf"One or more {_TOLD[unit]} have", r.message) and (m := _ABOVE.search(r.message)) is not None:
            above = float(m[1].replace(",", ".")) / 100
            return above / (1 + above)
    return None
