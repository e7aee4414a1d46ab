"""Kernels that Nsight Compute profiled, for the report: time, what they are bound by, and the figures that say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from necropsy.evidence import Evidence
from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.sources import Sources
from necropsy.evidence.traces import Traces
from necropsy.ncu.claim import kernel_name
from necropsy.ncu.figures import ACHIEVED, compute, feeds_tensor_cores, latency_bound, limiter, memory
from necropsy.ncu.groups import groups
from necropsy.ncu.lines import places
from necropsy.ncu.roofline import roofline
from necropsy.provenance.resolvers.statements import Resolver
from necropsy.report import KernelSummary, RooflinePosition

if TYPE_CHECKING:
    from necropsy.evidence.ncu_kernels import NcuKernel
    from necropsy.finding import Place
    from necropsy.ncu.groups import Group

MOST: Final = 50  # of one input
APART: Final = 10.0  # points between the two sides from which one of them is the limit: NVIDIA's
SENTENCE: Final = 60  # letters of a name that a sentence bears; tables cut names themselves
NAME: Final = 200
FULL: Final = 0.9  # share of the multiprocessors with work below which the grid is the limit


def profiled(evidence: Evidence) -> list[KernelSummary]:
    """One row a kernel, grid and place of the program's own launches, the most time first."""
    kernels = evidence.get(NcuKernels)
    if not kernels.rows:
        return []
    beside = tuple(evidence.get(t) if evidence.covers(t) else None for t in (InductorKernels, Traces))
    resolver = Resolver(evidence.get(Sources).tree)
    counted: dict[str, int] = {}
    found = []
    for group in groups(kernels):
        name = group.row.anchor.input
        counted[name] = counted.get(name, 0) + 1
        if group.ns is not None and counted[name] <= MOST:
            told = next(iter(places(group, *beside)), None)  # type: ignore[arg-type]
            found.append(_summary(group, told and next(iter(resolver.lines(told)), told)))
    return found


def _summary(group: Group, place: Place | None) -> KernelSummary:
    row = group.row
    told = {
        "compute": compute(row),
        "memory": memory(row),
        "occupancy": row.value(ACHIEVED),
    }
    return KernelSummary(
        input=row.anchor.input,
        kernel=kernel_name(group, NAME) if len(row.function) > SENTENCE else kernel_name(group),
        launches=sum(r.runs for r in group.rows),
        ns=int(group.ns or 0),
        share=group.share,
        file="" if place is None else place.file,
        line=None if place is None else place.line,
        function="" if place is None else place.function,
        bound_by=bound_by(row),
        metrics={name: round(v, 1) for name, v in told.items() if v is not None},
        roofline=position(row),
        warmup=group.warmup,
        grid=row.grid,
        block=row.block,
    )


def position(row: NcuKernel) -> RooflinePosition | None:
    """Where a launch stands under the roof; None where operations or bytes were not counted."""
    r = roofline(row)
    if r.work is None or r.bytes is None:
        return None
    return RooflinePosition(row.device_name, r.kind, r.reached, r.peak, r.bytes, r.bandwidth, r.peak_by, r.bandwidth_by)


def bound_by(row: NcuKernel) -> str:
    """`grid`, `latency`, `tensor cores`, `arithmetic`, `both sides`, a memory, or "" where it was not collected."""
    sm, mem = compute(row), memory(row)
    if sm is None or mem is None:
        return ""
    if latency_bound(row):
        return "grid" if row.active is not None and row.active < FULL else "latency"
    if abs(sm - mem) < APART:
        return "both sides"
    if sm > mem:
        return "tensor cores" if feeds_tensor_cores(row) else "arithmetic"
    return {"": "memory"}.get(limiter(row), limiter(row))
