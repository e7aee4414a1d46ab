"""The findings of a function to the line above it: how many, how often it broke or recompiled, what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from necropsy.finding import Severity
from necropsy.render.parts import words
from necropsy_lsp.matching import Function
from necropsy_lsp.placed import Shown
from necropsy_lsp.stored import StoredFinding

# Rules whose findings say how often the same thing happened.
BREAKS: Final = frozenset({"CMP001", "CMP002", "CMP003", "CMP004", "CMP005", "CMP006"})
RECOMPILATIONS: Final = frozenset({"CMP007", "CMP008", "CMP009"})
# Facts that a rule may give, in nanoseconds or as a number.
GPU_TIME: Final = ("gpu_time_ns", "gpu_ns")
LAUNCHES: Final = ("launches", "kernel_launches")


class Lens(Struct, frozen=True):
    """`title` stands above line `line` (from 0); `worst` is what it leads to."""

    line: int
    title: str
    worst: Shown


def lenses(found: Iterable[Shown], functions: Sequence[Function]) -> list[Lens]:
    """One lens above each function whose lines hold findings; a stale finding says nothing of what stands there now."""
    claims: dict[Function, list[Shown]] = {}
    for shown in found:
        around = [f for f in functions if f.first <= shown.line <= f.last]
        if around and not shown.stale and shown.place_index == 0:
            claims.setdefault(max(around, key=lambda f: f.first), []).append(shown)
    made = [Lens(function.first, title([s.finding for s in own]), _worst(own)) for function, own in claims.items()]
    return sorted(made, key=lambda lens: lens.line)


def title(findings: Sequence[StoredFinding]) -> str:
    """`2 findings: 1 error, 1 warning; 3 graph breaks; 12.4 ms, 31 % of the time`."""
    labels = [s.label for s in sorted(Severity, reverse=True)]
    counts = {label: sum(f.severity == label for f in findings) for label in labels}
    tally = ", ".join(f"{n} fatal" if label == "fatal" else words.plural(n, label) for label, n in counts.items() if n)
    head = f"{words.plural(len(findings), 'finding')}: {tally}" if len(findings) > 1 else tally
    parts = [f"Necropsy: {head}"]
    if breaks := sum(_times(f, "times") for f in findings if f.rule in BREAKS):
        parts.append(words.plural(breaks, "graph break"))
    if again := sum(_times(f, "recompilations") for f in findings if f.rule in RECOMPILATIONS):
        parts.append(words.plural(again, "recompilation"))
    if (launches := _total(findings, LAUNCHES)) is not None:
        parts.append(words.plural(round(launches), "launch").replace("launchs", "launches"))
    if (gpu := _total(findings, GPU_TIME)) is not None:
        parts.append(f"GPU {words.duration(gpu)}")
    if price := price_of(findings):
        parts.append(price)
    return "; ".join(parts)


def price_of(findings: Iterable[StoredFinding]) -> str:
    """`12.4 ms, 31 % of the time` over all of them, `about` where one is estimated; empty where none is known."""
    known = [f.cost for f in findings if f.cost.basis in ("measured", "estimated")]
    times = [c.ns for c in known if c.ns is not None and _sane(c.ns)]
    shares = [c.share for c in known if c.share is not None and 0 <= c.share <= 1]
    parts = [words.duration(sum(times))] if times else []
    if shares:
        parts.append(f"{words.share(min(sum(shares), 1.0))} of the time")
    about = "about " if parts and any(c.basis == "estimated" for c in known) else ""
    return about + ", ".join(parts)


def _times(finding: StoredFinding, name: str) -> int:
    """How often it happened: the fact that says so, or the number of copies that were found."""
    told = finding.facts.get(name)
    return max(finding.count, told if isinstance(told, int) and _sane(told) else 1)


def _total(findings: Iterable[StoredFinding], names: Sequence[str]) -> float | None:
    values = [f.facts.get(name) for f in findings for name in names]
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool) and _sane(v)]
    return sum(numbers) if numbers else None


def _sane(number: float) -> bool:
    """Whether a run can have measured it: a report may hold any number."""
    return 0 <= number < 1e18


def _worst(found: Sequence[Shown]) -> Shown:
    return max(found, key=lambda s: Severity.parse(s.finding.severity))
