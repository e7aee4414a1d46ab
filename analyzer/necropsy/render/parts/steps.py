"""Where steps went, as rows of a small table: words, milliseconds, share, bar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from necropsy.finding import Place
from necropsy.report import StepSummary

MOST: Final = 8  # rows of buckets; smaller ones are summed
RANKS: Final = 6  # ranks shown one by one
_LEAST: Final = 0.005  # share below which a bucket is summed with others
_WORTH: Final = 0.05  # lost share below which nothing need be explained


LINES: Final = 8  # lines of the program that are listed
_LEAST_LINE: Final = 0.01  # share of computing below which a line is not listed


class Row(Struct, frozen=True):
    """A line of the program: where, ns of one step in compiled kernels, share of the GPU's computing, its text."""

    place: Place
    ns: float
    share: float


class Bar(Struct, frozen=True):
    """One row: what, ns of one step, share of the steps' time."""

    name: str
    ns: float
    share: float


def title(row: StepSummary, name: str) -> str:
    """`Where 4 steps of 497 ms went (7-10, NVIDIA H200)`."""
    particulars = [p for p in (name, _numbers(row), row.device) if p]
    told = f" ({', '.join(particulars)})" if particulars else ""
    if not row.steps:
        return f"Where the profiled {milliseconds(row.ns)} went{told}"
    each = row.ns / row.steps
    if row.steps == 1:
        return f"Where the step of {milliseconds(each)} went{told}"
    return f"Where {row.steps} steps of {milliseconds(each)} each went{told}"


def _numbers(row: StepSummary) -> str:
    if row.found_by != "annotation" or not row.steps:
        return {"optimizer": "by optimizer steps", "function": "by calls of one function"}.get(row.found_by, "")
    return f"step {row.first}" if row.first == row.last else f"steps {row.first}-{row.last}"


def bars(row: StepSummary) -> list[Bar]:
    """The buckets, largest first; small ones in one row."""
    count = max(row.steps, 1)
    whole = row.ns or 1
    found = [Bar(name, ns / count, ns / whole) for name, ns in row.buckets.items() if ns > 0]
    found.sort(key=lambda b: -b.ns)
    shown = [b for b in found[:MOST] if b.share >= _LEAST]
    rest = found[len(shown) :]
    if rest:
        name = rest[0].name if len(rest) == 1 else f"{len(rest)} others"
        shown.append(Bar(name, sum(b.ns for b in rest), sum(b.share for b in rest)))
    return shown


def lines(row: StepSummary) -> list[Row]:
    """Where in the program compiled kernels spend the GPU's time, the heaviest lines first."""
    count, whole = max(row.steps, 1), row.buckets.get("compute", 0) or sum(t.ns for t in row.lines) or 1
    found = [Row(Place(t.file, t.line, None, t.function, t.text), t.ns / count, t.ns / whole) for t in row.lines]
    return [r for r in found if r.share >= _LEAST_LINE][:LINES]


def lines_title(row: StepSummary) -> str:
    """`Kernels that torch.compile made, by line (83% of computing)`."""
    whole = row.buckets.get("compute", 0)
    share = f" ({min(1.0, sum(t.ns for t in row.lines) / whole):.0%} of computing)" if whole else ""
    return f"Kernels that torch.compile made or calls, by line{share}"


def named(row: StepSummary) -> str:
    """How much of the loss findings account for."""
    if not row.reliable:
        return "CUDA graphs were replayed: idle time in this table may not be real."
    if not row.device:
        return ""
    behind = "The GPU runs behind the host, so that these are its own steps. " if row.behind else ""
    if row.lost_ns < _WORTH * row.ns:
        return behind.rstrip()
    return behind + (
        f"The GPU did not compute for {row.lost_ns / row.ns:.0%} of the time; "
        f"findings above account for {row.named_ns / row.lost_ns:.0%} of that."
    )


def across(rows: Sequence[StepSummary]) -> list[StepSummary]:
    """The rows worth showing one by one: of many ranks the one whose steps are longest."""
    if len(rows) <= 1:
        return list(rows)
    return [max(rows, key=lambda r: r.ns / max(r.steps, 1))]


def milliseconds(ns: float) -> str:
    """`405 ms`, `1.62 s`, `48 us`."""
    if ns >= 1e9:
        return f"{ns / 1e9:.2f} s"
    if ns >= 1e6:
        return f"{ns / 1e6:.3g} ms"
    return f"{ns / 1e3:.3g} us"
