"""Lines of profiled launches: what they carry, else generated code, else a trace of the same script, else none.

A launch of a compiled region carries its function at most; `TORCH_TRACE`, `TORCH_LOGS=output_code` or a debug folder
read together with the report tell which lines its kernel computes. A trace of torch's profiler tells the functions from
which a kernel of the same name, grid and block was launched: one, or a few, which are all told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from necropsy.finding import MAX_PLACES, Place, Rests
from necropsy.ncu.traced import sites
from necropsy.provenance.frames import is_library

if TYPE_CHECKING:
    from necropsy_parsers.records import Frame

    from necropsy.evidence.inductor_kernels import InductorKernel, InductorKernels
    from necropsy.evidence.ncu_kernels import NcuKernel
    from necropsy.evidence.traces import Traces
    from necropsy.ncu.groups import Group

GENERATED: Final = "generated code"
FUSED: Final = "generated code: fused of these lines"
CALLED: Final = "generated code: launched for these lines"
TRACE: Final = "the same kernel in a trace"
MOST: Final = 3  # callers in a trace; of more none is told
LEAST: Final = 0.01  # weight of a line of which no node was seen


def places(group: Group, inductor: InductorKernels | None = None, traces: Traces | None = None) -> tuple[Place, ...]:
    """Places of a group of launches, the claim first; empty where nothing tells."""
    own = group.place
    if own is not None and own.exactness == "line" and not group.row.compiled:
        return (own,)
    if inductor is not None and group.row.compiled and (lines := _generated(group, inductor)):
        return lines
    if own is not None:
        return (own,)
    return _traced(group.row, traces) if traces is not None else ()


def _generated(group: Group, table: InductorKernels) -> tuple[Place, ...]:
    """The lines that a generated kernel computes.

    A kernel may be called for several lines. They are told if the launches are as many as its calls, in whichever
    compilation of the graph they were; else it is not known which of them these launches computed.
    """
    by_compilation: dict[str, list[InductorKernel]] = {}
    for call in table:
        if call.kernel == group.row.function and not call.extern:
            by_compilation.setdefault(f"{call.graph} {call.compile_id}", []).append(call)
    told = [tuple(dict.fromkeys(call.lines for call in calls)) for calls in by_compilation.values()]
    if not told or any(set(lines) != set(told[0]) for lines in told) or () in told[0] or len(told[0]) > len(group.rows):
        return ()
    weights: dict[tuple[str, int | None], tuple[Frame, float]] = {}
    for weighed in (w for lines in told[0] for w in lines):
        key = (weighed.frame.file, weighed.frame.line)
        _, before = weights.get(key, (weighed.frame, 0.0))
        weights[key] = (weighed.frame, before + weighed.weight + LEAST)
    whole = all(call.complete for calls in by_compilation.values() for call in calls)
    exact = "line" if len(weights) == 1 and whole else "statement"
    how = GENERATED if len(weights) == 1 else FUSED if len(told[0]) == 1 else CALLED
    frames = [f for f, _ in sorted(weights.values(), key=lambda fw: -fw[1]) if not is_library(f.file)]
    return tuple(Place(f.file, f.line, None, f.function, f.text, exact, how) for f in frames[:MAX_PLACES])


def _traced(row: NcuKernel, traces: Traces) -> tuple[Place, ...]:
    """The functions that launch such a kernel in a trace; none where one is unknown, or they are many."""
    for profile in traces.gpu_profiles:
        found = sites(profile, row)
        places = [site.place for site in found if site.place is not None]
        if found and len(places) == len(found) <= MOST:
            return tuple(replace(p, how=TRACE, rests=_where_it_runs(p.rests)) for p in places)
    return ()


def _where_it_runs(rests: Rests) -> Rests:
    """What a verdict on a kernel claims is the line that launches it, wherever the remedy stands."""
    from necropsy.trace.profile import Moments

    if not isinstance(rests, Moments):
        return rests
    return Moments(rests.profile, rests.frames, rests.times, rests.ns, True, rests.kernels)
