"""Kernels that Nsight Compute profiled, as rows of a small table: time, share, bound by, and three figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Final

from msgspec import Struct

from necropsy.finding import Place
from necropsy.render.parts.steps import milliseconds
from necropsy.report import KernelSummary

MOST: Final = 10  # kernels of one input that are listed
FEW: Final = 3  # kernels that are listed however small
LEAST: Final = 0.005  # share of the profiled time below which others are not listed
_SHORT: Final = {"the L1 cache and shared memory": "L1, shared", "the L2 cache": "L2 cache", "device memory": "DRAM"}
_TAIL: Final = 10  # letters that are kept of the end of a name
FIGURES: Final = ("compute", "memory", "occupancy")


class Row(Struct, frozen=True):
    """One kernel in words: where, name, time, share, what binds it, and percent of its peaks ("-" if not collected).

    `times` is ` x3` where it was launched more than once, behind its blocks and their threads where others are alike.
    """

    place: Place | None
    kernel: str
    times: str
    time: str
    share: str
    bound_by: str
    figures: tuple[str, ...]


def inputs(rows: Sequence[KernelSummary], told: bool) -> list[list[KernelSummary]]:
    """The kernels of each input; of a single one its finding tells all, where one is `told` in full."""
    by_input: dict[str, list[KernelSummary]] = {}
    for row in rows:
        by_input.setdefault(row.input, []).append(row)
    return [found for found in by_input.values() if len(found) > 1 or not told]


def title(rows: Sequence[KernelSummary]) -> str:
    """`Where 4.1 ms of profiled kernels went`: of all of them, also those that are not told one by one."""
    first = rows[0]
    whole = first.ns / first.share if first.share else sum(r.ns for r in rows)
    warm = sum(r.warmup for r in rows)
    without = f", without {warm:,} launch{'es' * (warm > 1)} that warm{'s' * (warm == 1)} up" if warm else ""
    return f"Where {milliseconds(whole)} of profiled kernels went{without}"


def listed(rows: Sequence[KernelSummary]) -> list[Row]:
    """The kernels worth a line, the most time first."""
    shown = [r for i, r in enumerate(rows[:MOST]) if i < FEW or r.share is None or r.share >= LEAST]
    seen = Counter((r.kernel, r.file, r.line) for r in shown)
    return [_row(r, seen[r.kernel, r.file, r.line] > 1) for r in shown]


def _row(row: KernelSummary, alike: bool) -> Row:
    """`alike` tells that another row has the same name and place: then its shape is told, too."""
    place = Place(row.file, row.line, None, row.function) if row.file else None
    times = f" x{row.launches}" if row.launches > 1 else ""
    if alike and row.grid is not None and row.block is not None:
        times = f" [{prod(row.grid)} x {prod(row.block)}]{times}"
    return Row(
        place,
        row.kernel,
        times,
        milliseconds(row.ns),
        "" if row.share is None else f"{row.share:.1%}".replace("100.0%", "100%"),
        _SHORT.get(row.bound_by, row.bound_by) or "-",
        tuple(f"{row.metrics[name]:.0f}" if name in row.metrics else "-" for name in FIGURES),
    )


def fitted(name: str, room: int, ellipsis: str) -> str:
    """The name in `room` letters: of a long one what its template computes, or head and tail, where they differ."""
    if len(name) <= room:
        return name
    if within := re.fullmatch(r"\w+<(\w+)>", name):  # `reduce_kernel<MeanOps>`
        return fitted(within[1], room, ellipsis)
    tail = min(_TAIL, (room - len(ellipsis)) // 2)
    return name[: room - len(ellipsis) - tail] + ellipsis + name[len(name) - tail :]
