"""The optimizer updates one parameter at a time

What it means
    Each step of the optimizer launches several kernels for every parameter, hundreds or
    thousands in all, where its multi-tensor version needs a dozen and its fused version
    one or two. The host spends its time launching them, and the GPU waits between.

Why it happens
    `foreach=False` was given, or torch is older than 2.0, where that was the default; some
    parameters are on the CPU or are no plain tensors, which turns the multi-tensor version
    off; or an optimizer was written with a loop over parameters.

How to confirm
    The trace has frames `_single_tensor_adam` (or `..._sgd`) below `Optimizer.step`, or
    many `aten::mul_`, `aten::addcdiv_` where `_foreach_` or `_fused_` would stand.

How to fix
    Leave out `foreach=False`: torch 2.0 and newer choose the multi-tensor version for
    parameters on the GPU. `fused=True` (Adam, AdamW, SGD, Adagrad) is faster still. In a
    loop of your own use `torch._foreach_mul_` and its like.

Limits
    The cost is the time in which the GPU ran nothing while the host was in the optimizer's
    step, and that of its kernels. Rules about launches may see the same idle time.

References
    - https://docs.pytorch.org/docs/stable/optim.html#algorithms
    - https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html
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
    from necropsy.trace.optimizers import OneByOne
    from necropsy.trace.profile import Profile


class Thresholds(Struct, frozen=True):
    """`kernels` a step from which it matters; `single`: part of them of one tensor; `share` of the steps' time.

    A multi-tensor AdamW launches some 10 kernels a group of tensors, one of a single tensor 8 a
    parameter: 50 are 6 parameters at most.
    """

    kernels: int = 50
    single: float = 0.8
    share: float = 0.01


@rule("FUS006", "optimizer-one-by-one", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a trace."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.optimizers import one_by_one
        from necropsy.trace.opwork import opwork_of

        found = one_by_one(p, kernels=t.kernels, single=t.single)
        if found is not None and p.share(found.idle + opwork_of(p).scaled(found.ns)) >= t.share:
            yield _finding(p, found)


def _finding(p: Profile, found: OneByOne) -> Finding:
    from necropsy.trace.opwork import opwork_of

    w = opwork_of(p)
    place = found.sites[0].place if found.sites else None
    cost = found.idle + w.scaled(found.ns)
    return about(
        p,
        f"{' and '.join(found.names) or 'The optimizer'} updates one parameter at a time{in_function(place)}: "
        f"{round(p.per_step(found.kernels)):,} kernels a {p.step_word}, {ms(p.per_step(cost))} of each {p.step_word} "
        f"({part(p.share(cost))} of the time) in which the GPU waits for them or runs them.",
        Severity.WARNING,
        shows="Optimizer.step#" + (found.names[0] if found.names else ""),
        ns=cost,
        basis=w.basis,
        places=places_of(found.sites),
        event=f"optimizer@{p.input}",
        facts={
            "GPU idle in it": f"{ms(p.per_step(found.idle))} a {p.step_word}",
            "its kernels": f"{ms(p.per_step(found.ns))} a {p.step_word}",
        },
        fixes=_fixes(found),
    )


def _fixes(found: OneByOne) -> tuple[Fix, ...]:
    from necropsy.trace.optimizers import FUSED

    if found.own:
        return (
            Fix("Update all parameters at once: `torch._foreach_mul_`, `_foreach_add_`, `_foreach_addcdiv_`", "code"),
        )
    default = Fix("Leave out `foreach=False` (torch 2.0 and newer then choose foreach on the GPU)", "code")
    if all(n in FUSED for n in found.names):
        return (Fix(f"Build it as `torch.optim.{found.names[0]}(..., fused=True)`", "code"), default)
    return (Fix(f"Build it as `torch.optim.{found.names[0]}(..., foreach=True)`", "code"), default)
