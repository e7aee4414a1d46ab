"""Launches of one kernel from one place, as one thing to judge: their time, and its part of all that was profiled.

The first launches of a kernel may take longer than all others: code is loaded, memory is mapped, caches and clocks are
cold. How the kernel runs for most of the time is judged, so that such launches count neither in time nor as evidence.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
    from necropsy.finding import Place

LONGER: Final = 1.5  # times the median of the others that a launch takes which warms up
EVEN: Final = 1.3  # times their median that no other launch may take, or times simply vary
OTHERS: Final = 3  # other launches that there must be
FIRST: Final = 3  # launches at the start that may be longer


class Group(Struct, frozen=True):
    """Launches of one kernel, grid and place in one input, the longest first.

    `ns` is their time, `share` its part of the program's launches that were profiled there (0 to 1); both None where
    times were not collected. `warmup` launches of the same are left out.
    """

    rows: tuple[NcuKernel, ...]
    ns: float | None
    share: float | None
    warmup: int = 0

    @property
    def row(self) -> NcuKernel:
        """The longest launch."""
        return self.rows[0]

    @property
    def place(self) -> Place | None:
        """The place that the launches carry with them."""
        return self.row.place


def groups(kernels: NcuKernels) -> list[Group]:
    """The program's own launches, grouped; the most time first. Launches of tuners are left out."""
    return grouped(kernels.own, kernels.warming)


def grouped(rows: Iterable[NcuKernel], warming: Iterable[NcuKernel] = ()) -> list[Group]:
    """Rows grouped; shares are of the rows of the same input. `warming` are counted only."""
    by_key: dict[tuple[object, ...], list[NcuKernel]] = {}
    for row in rows:
        by_key.setdefault(_key(row), []).append(row)
    warm: dict[tuple[object, ...], int] = {}
    for row in warming:
        warm[_key(row)] = warm.get(_key(row), 0) + row.runs
    totals: dict[str, float] = {}
    for key, mine in by_key.items():
        steady = _steady(mine)
        warm[key] = warm.get(key, 0) + sum(r.runs for r in mine) - sum(r.runs for r in steady)
        by_key[key] = steady
        for row in steady:
            if row.ns is not None:
                totals[row.anchor.input] = totals.get(row.anchor.input, 0.0) + row.ns * row.runs
    made = [_group(mine, totals.get(mine[0].anchor.input), warm[key]) for key, mine in by_key.items()]
    return sorted(made, key=lambda g: -(g.ns or 0.0))


def _key(row: NcuKernel) -> tuple[object, ...]:
    place = (row.place.file, row.place.line) if row.place is not None else None
    return (row.anchor.input, row.kernel, row.grid, row.block, row.device, place)


def _group(rows: list[NcuKernel], total: float | None, warmup: int) -> Group:
    rows = sorted(rows, key=lambda r: -(r.ns or 0.0))
    times = [r.ns * r.runs for r in rows if r.ns is not None]
    ns = sum(times) if times else None
    return Group(tuple(rows), ns, ns / total if ns is not None and total else None, warmup)


def _steady(rows: list[NcuKernel]) -> list[NcuKernel]:
    """The rows without each process's first ones, where these take far longer than all behind them, which are even."""
    by_process: dict[int | None, list[NcuKernel]] = {}
    for row in rows:
        by_process.setdefault(row.process, []).append(row)
    return [row for mine in by_process.values() for row in mine[_longer(mine) :]]


def _longer(rows: list[NcuKernel]) -> int:
    """How many launches at the start of one process warm up."""
    times = [r.ns for r in rows if r.ns is not None and r.runs == 1]
    if len(times) < len(rows):
        return 0
    for first in range(1, min(FIRST, len(times) - OTHERS) + 1):
        usual = median(times[first:])
        if min(times[:first]) > LONGER * usual and max(times[first:]) <= EVEN * usual:
            return first
    return 0
