"""How the cost of a piece of work grows with its input: ratios, never times.

Cost is the processor time of this process, which other work on the machine does not
count into; medians of three runs are compared. Sizes are climbed step by step, so that
work that explodes is caught while it is still small.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Final

TIMES: Final = 4  # every step is so many times as large as the one before
STEPS: Final = 3
MOST: Final = 2.0  # times what linear work would cost; quadratic work costs 4 a step, 16 over two steps
NOISE: Final = 0.04  # seconds; work that is done so soon is in no danger at this size
UNSURE: Final = 0.004  # seconds; a cost below is no base to compare with


def cost(work: Callable[[], object]) -> float:
    """Seconds of processor time, the median of three runs."""
    return median(_once(work) for _ in range(3))


def _once(work: Callable[[], object]) -> float:
    gc.collect()
    start = process_time()
    work()
    return process_time() - start


def growth(make: Callable[[int], bytes], work: Callable[[bytes], object], size: int) -> float:
    """How many times more than linear the cost grew, at worst, on the way up to `size`.

    Stops at the first size that shows more than `MOST`.
    """
    worst = 1.0
    costs: list[float] = []
    for step in reversed(range(STEPS)):
        data = make(max(1, size // TIMES**step))
        now = cost(lambda data=data: work(data))  # type: ignore[misc]
        for steps, before in enumerate(reversed(costs), 1):
            if now > NOISE and before > UNSURE:
                worst = max(worst, now / before / TIMES**steps)
        if worst > MOST:
            break
        costs.append(now)
    return worst
