"""How rules of Nsight Compute reports say things: one finding about launches of one kernel, with their time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from necropsy.finding import MAX_PLACES, Cost, Finding, Place, Severity
from necropsy.trace.kernelnames import short, telling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from necropsy.ncu.groups import Group
    from necropsy.ncu.traced import Weighed

ALL: Final = 0.999


def about(
    group: Group,
    message: str,
    severity: Severity,
    *,
    places: Iterable[Place] = (),
    gain: float | None = None,
    seen: Weighed | None = None,
    **more: Any,
) -> Finding:
    """A finding about a group of launches.

    `gain` is the part of their time that could be saved (0 to 1): the cost is then an estimate of that part, else the
    measured time of the launches. Its share is of all that was profiled, or, where a trace has `seen` such launches,
    of the steps there. `facts` come before those that every finding has (kernel, grid, launches).
    """
    row = group.row
    ns, share, basis = (group.ns, group.share, "measured") if seen is None else (seen.ns, seen.share, "measured")
    if gain is not None and ns is not None:
        ns, share, basis = ns * gain, None if share is None else share * gain, "estimated"
    if seen is None and share is not None and len(group.rows) == 1 and group.share is not None and group.share > ALL:
        share = None  # it is all that was profiled, and tells nothing
    facts = dict(more.pop("facts", {})) | {"kernel": kernel_name(group)}
    if row.grid is not None and row.block is not None:
        facts["grid"] = f"{_counted(row.grid, 'block')} of {_counted(row.block, 'thread')}"
    if len(group.rows) > 1 or row.runs > 1:
        facts["launches"] = sum(r.runs for r in group.rows)
    if group.warmup:
        message = f"{message.removesuffix('.')}; {_warmup(group)} left out."
    base: dict[str, Any] = {
        "message": message,
        "anchor": replace(row.anchor, text=row.anchor.text if row.read == "text" else kernel_name(group, 72)),
        "severity": severity,
        "code": tuple(dict.fromkeys(places))[:MAX_PLACES],
        "facts": facts,
        "cost": Cost(None if ns is None else int(ns), share, basis) if ns is not None else Cost(),
        "ranks": () if row.origin.rank is None else (row.origin.rank,),
        "seq": row.seq,
        "attempt": row.attempt,
        "subject": kernel_name(group),
    }
    return Finding(**{**base, **more})


def _warmup(group: Group) -> str:
    n = group.warmup
    return f"{n:,} launches that warm up are" if n > 1 else "a launch that warms up is"


def kernel_name(group: Group, most: int = 60) -> str:
    """The kernel's name for a sentence: without arguments, and with its template, or what that computes, if it fits."""
    name = short(_without_arguments(group.row.kernel), 400)
    if len(name) <= most:
        return name
    function = telling(group.row.kernel, group.row.function, most)
    return function if len(function) <= most else function[: most - 3] + "..."


def _without_arguments(name: str) -> str:
    """`add<float>` of `add<float>(float *, int)`."""
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if depth == 0:
            return name[:at] if name[at] == "(" and at else name
    return name


def _counted(dims: tuple[int, int, int], what: str) -> str:
    """`16 x 32 blocks`, `1 block`."""
    told = _dims(dims)
    return f"{told} {what}{'' if told == '1' else 's'}"


def _dims(dims: tuple[int, int, int]) -> str:
    """`132`, `16 x 32`, `2 x 1 x 64`: axes of one at the end are left out."""
    kept = list(dims)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return " x ".join(str(n) for n in kept)
