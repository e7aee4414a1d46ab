"""Launches of one kernel from one place, as one thing to judge: their time, and its part of all that was profiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
    from necropsy.finding import Place


class Group(Struct, frozen=True):
    """Launches of one kernel, grid and place in one input, the longest first.

    `ns` is their time, `share` its part of the program's launches that were profiled there (0 to 1); both None where
    times were not collected.
    """

    rows: tuple[NcuKernel, ...]
    ns: float | None
    share: float | None

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
    return grouped(kernels.own)


def grouped(rows: Iterable[NcuKernel]) -> list[Group]:
    """Rows grouped; shares are of the rows of the same input."""
    by_key: dict[tuple[object, ...], list[NcuKernel]] = {}
    totals: dict[str, float] = {}
    for row in rows:
        place = (row.place.file, row.place.line) if row.place is not None else None
        key = (row.anchor.input, row.kernel, row.grid, row.block, row.device, place)
        by_key.setdefault(key, []).append(row)
        if row.ns is not None:
            totals[row.anchor.input] = totals.get(row.anchor.input, 0.0) + row.ns * row.runs
    made = [_group(mine, totals.get(mine[0].anchor.input)) for mine in by_key.values()]
    return sorted(made, key=lambda g: -(g.ns or 0.0))


def _group(rows: list[NcuKernel], total: float | None) -> Group:
    rows = sorted(rows, key=lambda r: -(r.ns or 0.0))
    times = [r.ns * r.runs for r in rows if r.ns is not None]
    ns = sum(times) if times else None
    return Group(tuple(rows), ns, ns / total if ns is not None and total else None)
