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
MOST: Final = 8.0  # of a step; quadratic work would cost 16 times as much
NOISE: Final = 0.04  # seconds; work that is done so soon is in no danger at this size


def cost(work: Callable[[], object]) -> float:
    """Seconds of processor time, the median of three runs; of one where even that is in the noise."""
    first = _once(work)
    return first if first < NOISE / 10 else median([first, _once(work), _once(work)])


def _once(work: Callable[[], object]) -> float:
    gc.collect()
    start = process_time()
    work()
    return process_time() - start


def growth(make: Callable[[int], bytes], work: Callable[[bytes], object], size: int) -> float:
    """The worst growth of cost from one step to the next, up to `size`; 1.0 where it is all noise.

    Stops at the first step that grows by more than `MOST`.
    """
    worst, below = 1.0, 0.0
    for step in reversed(range(STEPS)):
        data = make(max(1, size // TIMES**step))
        above = cost(lambda data=data: work(data))  # type: ignore[misc]
        if below and above > NOISE:
            worst = max(worst, above / max(below, 1e-4))
        if worst > MOST:
            break
        below = above
    return worst
