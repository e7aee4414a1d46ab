"""The same run told twice, as a report and as its export, is one: each launch keeps what either of them tells.

Exports of one report have the same processes, kernels, grids and order, and times that differ by rounding only. Two
runs of one script differ in process ids, or in times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.ncu.metrics import TIME
from necropsy_parsers.ncu.records import Dims, Launch

SAME: Final = 0.01  # part by which rounding (two digits behind the point) changes a time at most
MOST_OF: Final = 0.8  # part of an input's launches that must be found in the other

Key = tuple[int | None, str, Dims | None, Dims | None, int]


def merged(launches: Iterable[Launch]) -> list[Launch]:
    """The launches in order of reading, those that two inputs tell once."""
    by_input: dict[str, dict[Key, Launch]] = {}
    seen: Counter[tuple[str, object]] = Counter()
    for launch in sorted(launches, key=lambda x: x.seq):
        name = launch.anchor.input
        alike = (launch.process, launch.function, launch.grid, launch.block)
        by_input.setdefault(name, {})[*alike, seen[name, alike]] = launch
        seen[name, alike] += 1
    kept: list[dict[Key, Launch]] = []
    for mine in sorted(by_input.values(), key=lambda m: -sum(len(x.metrics) for x in m.values())):
        fuller = next((other for other in kept if _same_run(mine, other)), None)
        if fuller is None:
            kept.append(mine)
            continue
        for key, launch in mine.items():
            fuller[key] = _both(fuller[key], launch) if key in fuller else launch
    return sorted((launch for run in kept for launch in run.values()), key=lambda x: x.seq)


def _same_run(mine: dict[Key, Launch], other: dict[Key, Launch]) -> bool:
    alike = [key for key in mine if key in other and key[0] is not None and _same_time(mine[key], other[key])]
    return len(alike) >= MOST_OF * len(mine)


def _same_time(a: Launch, b: Launch) -> bool:
    one, other = a.metrics.get(TIME), b.metrics.get(TIME)
    return one is not None and other is not None and abs(one - other) <= SAME * max(one, other)


def _both(fuller: Launch, other: Launch) -> Launch:
    """A launch with what the other telling of it adds: never a metric that is told already."""
    return replace(
        fuller,
        metrics=other.metrics | fuller.metrics,
        attributes=other.attributes | fuller.attributes,
        sections=tuple(sorted({*fuller.sections, *other.sections})),
        rules=fuller.rules or other.rules,
        ranges=fuller.ranges or other.ranges,
        stack=fuller.stack or other.stack,
        source=fuller.source or other.source,
        notices=fuller.notices or other.notices,
    )
