"""Where the steps of each trace went, for the report: buckets, and how much of the loss the findings name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from necropsy.evidence import Evidence
from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Severity
from necropsy.report import LineTime, StepSummary

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile

# Families whose cost is a part of computing; the others' is time in which the device did not compute.
_OF_COMPUTE: Final = ("FUS", "KRN", "MEM001", "MEM012", "MEM013")
# Their cost is the time of the ranks that wait, not of the rank that is named.
_OF_OTHERS: Final = ("DST007", "DST008", "DST013")
MOST_LINES: Final = 50  # of one trace

_OF_CPU: Final = {"dispatching": "operators"}


def stepping(evidence: Evidence, findings: Sequence[Finding]) -> list[StepSummary]:
    """One row a trace with steps or GPU work, in order of rank."""
    traces = evidence.get(Traces)
    if not traces.traces:
        return []
    told = [p for p in traces.profiles if p.judged and (p.steps.how != "window" or not p.cpu_only)]
    kernels = evidence.get(InductorKernels)
    return [_summary(p, findings, kernels) for p in told]


def _summary(p: Profile, findings: Sequence[Finding], kernels: InductorKernels) -> StepSummary:
    from necropsy.trace.partition import partition_of

    behind = p.pace is not p.steps
    partition = partition_of(p.rank, p.pace, p.activity) if behind else p.partition
    buckets = {name: partition.total(name) for name in partition.buckets}
    if p.cpu_only:
        # Without a device nothing "ran on it": operators are the work.
        buckets = {_OF_CPU.get(name, name): ns for name, ns in buckets.items() if ns}
    lost = p.pace.total - buckets.get("compute", 0)
    shares = sum(f.cost.share or 0.0 for f in findings if f.severity > Severity.NOTE and _lost_in(p, f))
    numbers = p.pace.number.tolist()
    return StepSummary(
        input=p.input,
        rank=p.origin.rank,
        device="" if p.cpu_only or not p.trace.meta.devices else p.trace.meta.devices[0].name,
        steps=len(p.pace) if p.steps.how != "window" else 0,
        found_by=p.steps.how,
        first=int(numbers[0]),
        last=int(numbers[-1]),
        ns=p.pace.total,
        buckets=buckets,
        reliable=not p.graphs,
        lost_ns=lost,
        named_ns=min(round(shares * p.pace.total), lost),
        behind=behind,
        lines=_lines(p, kernels) if not p.cpu_only else (),
    )


def _lines(p: Profile, kernels: InductorKernels) -> tuple[LineTime, ...]:
    """The time of compiled kernels by line of the program."""
    if not len(kernels):
        return ()
    from necropsy.trace.generated import by_line

    shares = by_line(p, kernels).shares[:MOST_LINES]
    return tuple(LineTime(s.frame.file, s.frame.line, s.frame.function, s.frame.text, round(s.ns)) for s in shares)


def _lost_in(p: Profile, f: Finding) -> bool:
    """Whether a finding's cost is time in which this process's device did not compute."""
    if f.rule in _OF_OTHERS:
        return p.origin.rank is not None and p.origin.rank not in f.ranks
    return f.anchor.input == p.input and not f.rule.startswith(_OF_COMPUTE)
