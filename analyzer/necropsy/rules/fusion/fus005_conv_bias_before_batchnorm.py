"""Convolutions add a bias that the BatchNorm behind them takes away again

What it means
    A BatchNorm subtracts the mean of each channel, so that a constant added to the channel
    before it has no effect. The convolution adds one all the same, in a kernel of its own,
    and the backward pass computes its gradient, which is zero but for rounding.

Why it happens
    `nn.Conv2d` has a bias unless it is told otherwise.

How to confirm
    The trace shows `aten::conv2d` with three tensors, and right behind it `aten::batch_norm`
    in training.

How to fix
    `nn.Conv2d(..., bias=False)` where a BatchNorm follows. Old checkpoints: fold the bias
    into `running_mean`, or load with `strict=False`.

Limits
    Needs recorded shapes and arguments (torch 2.1 or newer). Only a BatchNorm right behind
    the convolution counts. What the bias costs is little: this is a note unless the trace
    measures more than 2 % of the step.

References
    - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#disable-bias-for-convolutions-directly-followed-by-a-batch-norm
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part, places_of


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time that adding the bias and its gradient take, for a warning (as for other fusions)."""

    share: float = 0.02


@rule("FUS005", "conv-bias-before-batchnorm", Severity.NOTE, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a trace."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.convnorm import biased
        from necropsy.trace.opwork import opwork_of

        w, found = opwork_of(p), biased(p)
        if found is None or 2 * found.steps <= len(p.steps):
            continue
        place = found.sites[0].place if found.sites else None
        yield about(
            p,
            f"{round(found.calls / max(1, len(p.steps)))} convolutions a {p.step_word}{in_function(place)} add a bias "
            f"that the BatchNorm behind them takes away again: {ms(p.per_step(found.ns))} of each {p.step_word} "
            f"({part(w.share(found.ns))} of the time) for adding it and for its gradient.",
            Severity.WARNING if w.share(found.ns) >= t.share else Severity.NOTE,
            shows="aten::conv2d aten::batch_norm",
            ns=w.scaled(found.ns),
            basis=w.basis,
            places=places_of(found.sites),
            event=f"conv bias@{p.input}",
            facts={"kernels": f"{round(p.per_step(found.kernels))} a {p.step_word}"},
            fixes=(Fix("Build these convolutions with `bias=False`", "code"),),
        )
