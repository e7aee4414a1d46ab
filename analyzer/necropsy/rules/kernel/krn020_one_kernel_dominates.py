"""One kernel takes most of the GPU's time

What it means
    More than half of what the GPU computed in the steps was one kernel. Whatever is gained
    elsewhere is small against it: start there.

Why it happens
    A single large operation (a wide output layer, an attention, an embedding's gradient)
    is most of the model's work; or one operation is far slower than it should be.

How to confirm
    The profiler's table sorted by `cuda_time_total` has it on top.

How to fix
    Look at the operation and the function named here: is its input larger than needed, in
    a wider type than needed, of an unfavourable layout or size? If it does what it must at
    the speed that the GPU has, the program is at its limit, which is good news.

Limits
    Lines of compiled kernels need the code that torch.compile generated (`TORCH_LOGS=output_code,graph_code,
    post_grad_graphs`, or TORCH_TRACE) beside the trace.
    A note: that a kernel is large does not make it slow. Findings that tell why a kernel
    is slow take its place. Collectives are not counted.

References
    - https://docs.pytorch.org/tutorials/recipes/recipes/profiler_recipe.html
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part


class Thresholds(Struct, frozen=True):
    """`dominates`: part of the GPU's computing time; `share`: part of the steps' time below which it hardly matters."""

    dominates: float = 0.5
    share: float = 0.1


@rule("KRN020", "one-kernel-dominates", Severity.NOTE, settings=Thresholds, general=True)
def check(traces: Traces, generated: InductorKernels | None, t: Thresholds) -> Iterator[Finding]:
    """A note a trace at most."""
    for p in traces.gpu_profiles:
        from necropsy.trace.generated import places_of
        from necropsy.trace.kernelnames import short
        from necropsy.trace.kerneltimes import dominant
        from necropsy.trace.opwork import opwork_of

        top = dominant(p)
        if top is None or top.ns <= t.dominates * top.total or opwork_of(p).share(top.ns) < t.share:
            continue
        lines = places_of(p, generated, top.rows)
        place = lines[0] if lines else top.sites[0].place if top.sites and not p.graphs else None
        operator = f", launched by {top.operator}" if top.operator else ""
        yield about(
            p,
            f"One kernel, {short(top.name)}, takes {part(top.ns / top.total)} of the GPU's computing time "
            f"({ms(p.per_step(top.ns))} of each {p.step_word}){operator}{in_function(place)}: start there.",
            Severity.NOTE,
            shows=top.name,
            places=lines or [place],
            event=f"kernel:{top.name}@{p.input}",
            facts={"calls": top.calls, "longest (us)": round(top.longest / 1e3, 1)},
            fixes=(Fix("See whether this operation is larger, wider or slower than it must be", "investigate"),),
        )
