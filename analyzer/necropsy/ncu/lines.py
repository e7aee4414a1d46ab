"""Lines of profiled launches: what they carry, else generated code, else a trace of the same script, else none.

A launch of a compiled region carries its function at most; `TORCH_TRACE`, `TORCH_LOGS=output_code` or a debug folder
read together with the report tell which lines its kernel computes. A trace of torch's profiler tells the functions from
which a kernel of the same name, grid and block was launched: one, or a few, which are all told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from necropsy_parsers.ncu.build import function_of

from necropsy.finding import MAX_PLACES, Place
from necropsy.provenance.frames import is_library

if TYPE_CHECKING:
    from necropsy.evidence.inductor_kernels import InductorKernels
    from necropsy.evidence.ncu_kernels import NcuKernel
    from necropsy.evidence.traces import Traces
    from necropsy.ncu.groups import Group
    from necropsy.trace.profile import Profile, Site

GENERATED: Final = "generated code"
TRACE: Final = "the same kernel in a trace"
MOST: Final = 3  # callers in a trace; of more none is told
LEAST: Final = 1.0  # weight of a line that computes nothing that takes time


def places(group: Group, inductor: InductorKernels | None = None, traces: Traces | None = None) -> tuple[Place, ...]:
    """Places of a group of launches, the claim first; empty where nothing tells."""
    own = group.place
    if own is not None and own.exactness == "line" and not group.row.compiled:
        return (own,)
    if inductor is not None and group.row.compiled and (lines := _generated(group.row, inductor)):
        return lines
    if own is not None:
        return (own,)
    return _traced(group.row, traces) if traces is not None else ()


def _generated(row: NcuKernel, table: InductorKernels) -> tuple[Place, ...]:
    """The lines that a generated kernel of this name computes; none if calls of it differ in that."""
    calls = {call.lines: call for call in table if call.kernel == row.function and not call.extern}
    if len(calls) != 1:
        return ()
    call = next(iter(calls.values()))
    weights = sorted(call.lines, key=lambda w: -(w.weight + LEAST))
    frames = [w.frame for w in weights if not is_library(w.frame.file)]
    exact = "line" if len(call.lines) == 1 and call.complete else "statement"
    return tuple(Place(f.file, f.line, None, f.function, f.text, exact, GENERATED) for f in frames[:MAX_PLACES])


def _traced(row: NcuKernel, traces: Traces) -> tuple[Place, ...]:
    """The functions that launch such a kernel in a trace; none where one is unknown, or they are many."""
    for profile in traces.gpu_profiles:
        sites = _sites(profile, row)
        places = [site.place for site in sites if site.place is not None]
        if sites and len(places) == len(sites) <= MOST:
            return tuple(replace(p, how=TRACE) for p in places)
    return ()


def _sites(profile: Profile, row: NcuKernel) -> list[Site]:
    """Callers of kernels with the name, grid and block of the launch, the most time first."""
    import numpy as np

    kernels, trace = profile.rank.kernels, profile.trace
    if not len(kernels) or row.grid is None:
        return []
    alike = [n for n in np.unique(kernels["name"]).tolist() if function_of(trace.names[n]) == row.function]
    mask = np.isin(kernels["name"], alike)
    for column, wanted in (("grid", row.grid), ("block", row.block)):
        fits = [t for t in np.unique(kernels[column][mask]).tolist() if _dims(trace.text(t)) == wanted]
        mask &= np.isin(kernels[column], fits)
    return profile.work_sites(kernels, mask) if mask.any() else []


def _dims(value: object) -> tuple[int, ...] | None:
    return tuple(int(v) for v in value) if isinstance(value, list | tuple) else None
