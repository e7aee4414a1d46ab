"""The host does not launch work as fast as the GPU gets done with it

What it means
    When a kernel ended, the next had not even been launched: the GPU stood idle again and
    again, each time for a little, until Python and torch's dispatcher came to the next
    launch. Faster kernels would change nothing.

Why it happens
    Many small operations on small tensors; a small batch; Python between the operations;
    a slow or busy processor.

How to confirm
    Run without the profiler and double the batch: if the step takes hardly longer, the host
    is what limits. `py-spy top` shows one core at 100 %.

How to fix
    Launch less and larger: a larger batch, fused operators and optimizers, `torch.compile`. Or
    launch all at once: CUDA graphs (`torch.compile(mode="reduce-overhead")`, `torch.cuda.graph`).

Limits
    Recording slows the host down: 1.5 times without options, up to 2.7 times with stacks or
    shapes (small layers, torch 2.13). It is a warning only if the GPU would still idle for `remaining` of
    the steps with a host that much faster, else a note. The
    functions named are those whose launches came late, which need not be wrong in
    themselves. Not judged where CUDA graphs are replayed.

References
    - https://github.com/facebookresearch/HolisticTraceAnalysis
    - https://pytorch.org/blog/accelerating-pytorch-with-cuda-graphs/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part, places_of

if TYPE_CHECKING:
    from necropsy.trace.late import Late
    from necropsy.trace.profile import Profile


class Thresholds(Struct, frozen=True):
    """`share` of the steps from which late launches are told (TraceLens: 15 % idle).

    It is a warning if so much of the steps as `remaining` would be idle without the recording.
    """

    share: float = 0.15
    remaining: float = 0.3


@rule("LCH002", "host-bound", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a trace whose launches come late in most steps."""
    for p in traces.gpu_profiles:
        from necropsy.trace.idle import in_most_steps, judgeable
        from necropsy.trace.late import late_launches

        if not judgeable(p):
            continue
        late = late_launches(p)
        if p.share(late.ns) >= t.share and in_most_steps(p, late.times, late.own, t.share):
            yield _finding(p, late, t)


def _finding(p: Profile, late: Late, t: Thresholds) -> Finding:
    loud = late.remaining >= t.remaining and len(p.steps) > 1
    often = f"{p.per_step(late.count):,.0f} launches a {p.step_word} (of {p.per_step(late.launches):,.0f})"
    first = in_function(late.sites[0].place) if late.sites else ""
    where = f", the most{first}" if first else ""
    return about(
        p,
        f"The host cannot feed the GPU: before {often} it has run dry and waits {ms(late.ns / max(1, late.count))} on "
        f"average, {part(p.share(late.ns))} of the time{where}.",
        Severity.WARNING if loud else Severity.NOTE,
        shows="launches that begin after the kernel before has ended",
        ns=late.ns,
        places=places_of(late.sites),
        event=f"late@{p.input}",
        claims=frozenset({f"idle@{p.input}"}),
        facts={
            f"idle (ms a {p.step_word})": round(p.per_step(late.ns) / 1e6, 2),
            "idle without the recording, at least (% of the time)": round(100 * late.remaining),
            "mean kernel (us)": round(late.kernel / 1e3, 1),
            "launch calls (% of the time)": round(100 * p.share(late.calling), 1),
        },
        fixes=_fixes(late),
    )  # fmt: skip


def _fixes(late: Late) -> tuple[Fix, ...]:
    again = Fix("Profile once more without stacks and shapes, to see how much of it the recording is", "investigate")
    larger = Fix("A larger batch gives each launch more to do", "code")
    if late.compiled:
        graphs = Fix('Compile with `mode="reduce-overhead"`, which replays CUDA graphs', "code")
        return graphs, larger, again
    graphs = Fix('`torch.compile(model, mode="reduce-overhead")` fuses kernels and replays CUDA graphs', "code")
    return graphs, larger, again
