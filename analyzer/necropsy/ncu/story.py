"""One story a kernel: of all that holds for its launches, the cause is told, and the rest is its facts.

A grid that is too small also leaves occupancy low, issue slots idle and everything latency-bound. Each rule judges by
itself; what it finds claims the events of those after it in `ORDER`, whose rules are `general` and therefore yield.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from necropsy.finding import Finding, Severity
from necropsy.ncu.claim import about, kernel_name
from necropsy.ncu.figures import figures, headroom
from necropsy.ncu.groups import Group, groups
from necropsy.ncu.lines import places
from necropsy.ncu.roofline import roofline
from necropsy.ncu.traced import weighed
from necropsy.trace.claim import ms, part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from necropsy.evidence.inductor_kernels import InductorKernels
    from necropsy.evidence.ncu_kernels import NcuKernels
    from necropsy.evidence.ncu_rules import NcuRule, NcuRules
    from necropsy.evidence.traces import Traces

# The deeper cause first: the wrong unit, too little work, wasted bytes, too few warps, what warps wait for, verdicts.
ORDER: Final = (
    "KRN018", "KRN019", "KRN002", "KRN013", "MEM010", "MEM008", "MEM009", "KRN006", "KRN010", "KRN009", "KRN015",
    "KRN005", "KRN014", "KRN012", "KRN008", "KRN007", "FUS009", "KRN011", "KRN001", "KRN003", "KRN004", "MEM011",
)  # fmt: skip
ALL_OF: Final = 0.995
MINOR: Final = 0.2  # part of what the busier side of the GPU leaves below which a cause explains no other verdict
Beside = tuple["InductorKernels | None", "Traces | None"]


class Weight(Struct, frozen=True):
    """What a kernel must weigh.

    `share` of the profiled time below which it is passed over; `loss`: the part of that time that could be saved from
    which it is a warning, else a note.
    """

    share: float = 0.01
    loss: float = 0.02


def event(code: str, group: Group) -> str:
    """The event of a rule's verdict on these launches."""
    return f"ncu:{code}:{group.row.seq}@{group.row.anchor.input}"


def weaker(code: str, group: Group) -> frozenset[str]:
    """The verdicts that this one explains."""
    return frozenset(event(other, group) for other in ORDER[ORDER.index(code) + 1 :])


def worth_telling(kernels: NcuKernels, t: Weight) -> Iterator[Group]:
    """The program's kernels with enough time to speak of; where no times were collected, all."""
    for group in groups(kernels):
        if group.row.workload == "kernel" and (group.share is None or group.share >= t.share):
            yield group


def said(rules: NcuRules, group: Group, *words: str, kinds: tuple[str, ...] = ("OPT", "WRN")) -> list[NcuRule]:
    """What NVIDIA's rules said of the longest launch, with one of these words (lower case) in title or message.

    Text pages print neither the rule's identifier nor its title.
    """
    return [
        r for r in rules.of(group.row.seq)
        if r.kind in kinds and any(w in f"{r.rule} {r.title} {r.message}".lower() for w in words)
    ]  # fmt: skip


def estimate(heard: Iterable[NcuRule]) -> float | None:
    """NVIDIA's estimate of what the kernel could gain (0 to 1): the largest, since they overlap; never a local one."""
    known = [r.global_gain for r in heard if r.global_gain is not None]
    return min(1.0, max(known) / 100) if known else None


def bounded(gain: float, group: Group) -> float:
    """A gain that is no larger than what the busier side of the kernel leaves."""
    room = headroom(group.row)
    return max(0.0, gain if room is None else min(gain, room))


def clause(group: Group) -> str:
    """`name (460 us, 11% of the profiled time)`."""
    told = [ms(group.ns)] if group.ns is not None else []
    if group.share is not None and group.share < ALL_OF:
        told.append(f"{part(group.share)} of the profiled time")
    return kernel_name(group) + (f" ({', '.join(told)})" if told else "")


def tell(
    code: str,
    group: Group,
    message: str,
    t: Weight,
    *,
    beside: Beside,
    gain: float | None = None,
    heard: Iterable[NcuRule] = (),
    note: bool = False,
    **more: Any,
) -> Finding:
    """The finding: its weight by what could be gained, its cost by the lower of that and NVIDIA's estimate.

    `gain` is this rule's own estimate (0 to 1), so that a report and its export weigh the same. A trace that shows the
    same kernel tells what it is a part of: the steps' time, and not just what was profiled.
    """
    heard = list(heard)
    theirs = estimate(heard)
    roof = roofline(group.row)
    mine = gain if gain is not None else theirs
    where = places(group, *beside)
    traces = beside[1]
    seen = weighed(group.row, next(iter(where), None), traces) if traces is not None else None
    share = seen.share if seen is not None else group.share
    worth = mine is not None and (share if share is not None else 1.0) * mine >= t.loss
    facts = dict(more.pop("facts", {})) | figures(group.row)
    if seen is not None:
        facts["in the trace"] = f"{seen.launches:,} launches, {ms(seen.ns)}, {part(seen.share)} of the steps"
    if roof.share is not None and roof.intensity is not None and roof.ridge is not None:
        at = f"{roof.intensity:.2g} operations a byte (arithmetic limits from {roof.ridge:.3g} on)"
        facts["roofline"] = f"{part(roof.share)} of what is possible at {at}"
    if theirs is not None:
        facts["speed-up by NVIDIA's estimate, at most"] = f"{theirs * 100:.0f}%"
    return about(
        group,
        message,
        Severity.WARNING if worth and not note else Severity.NOTE,
        gain=min((g for g in (mine, theirs) if g is not None), default=None),
        places=where,
        seen=seen,
        facts=facts,
        event=event(code, group),
        claims=frozenset() if _is_minor(mine, group) else weaker(code, group),
        **more,
    )


def _is_minor(gain: float | None, group: Group) -> bool:
    """Whether a cause leaves most of what the kernel loses unexplained."""
    room = headroom(group.row)
    return gain is not None and room is not None and gain < MINOR * room
