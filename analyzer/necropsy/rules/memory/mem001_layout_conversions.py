"""Convolutions convert the layout of their data

What it means
    Around its convolutions the GPU spends this part of their time on turning tensors from
    NCHW to NHWC and back. Tensor Cores want channels last; cuDNN converts what comes
    otherwise, for each convolution anew.

Why it happens
    Model or input is in PyTorch's default layout (NCHW) while half precision or TF32 makes
    cuDNN choose kernels that work on NHWC; or only one of the two is channels-last.

How to confirm
    Kernels like `nchwToNhwcKernel` or `batched_transpose` run below `aten::cudnn_convolution`.

How to fix
    `model = model.to(memory_format=torch.channels_last)` and
    `x = x.to(memory_format=torch.channels_last)`; keep what lies between in that layout (no
    `.contiguous()`, no `view` that needs NCHW).

Limits
    Thresholds are TraceLens's: 10 % of the convolutions' time is moderate, 20 % high.
    Transposes of attention and of the user's own are not meant (MEM013). The cost is the
    time on the device; how much of it channels-last saves is known after trying.

References
    - https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html
    - https://docs.nvidia.com/deeplearning/performance/dl-performance-convolutional/index.html
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
    from necropsy.trace.layout import Conversions
    from necropsy.trace.profile import Profile


class Thresholds(Struct, frozen=True):
    """Shares of the convolutions' time (`moderate`, `high`), and of the steps' time for a note and a `warning`."""

    moderate: float = 0.1
    high: float = 0.2
    share: float = 0.01
    warning: float = 0.03


@rule("MEM001", "layout-conversions", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a trace."""
    for p in traces.gpu_profiles:
        from necropsy.trace.lag import sample_of
        from necropsy.trace.layout import conversions

        found = conversions(p)
        if found.share >= t.moderate:
            ns = sample_of(p).scaled(found.ns)
            if p.share(ns) >= t.share:
                severity = Severity.WARNING if p.share(ns) >= t.warning else Severity.NOTE
                yield _finding(p, found, ns, severity, "high" if found.share >= t.high else "moderate")


def _finding(p: Profile, found: Conversions, ns: int, severity: Severity, level: str) -> Finding:
    from necropsy.trace.lag import sample_of
    from necropsy.trace.layout import channels_last

    sites = [] if p.graphs else p.work_sites(p.rank.kernels, found.rows)
    first = sites[0].place if sites else None
    inputs, weights = channels_last(p)
    full = p.top_names(p.rank.kernels, found.rows.nonzero()[0], 2)
    names = [n.removeprefix("void ").partition("<")[0].partition("(")[0] for n in full]
    return about(
        p,
        f"{part(found.share)} of the convolutions' GPU time{in_function(first)} goes into converting layouts between "
        f"NCHW and NHWC ({ms(p.per_step(ns))} a {p.step_word}, {part(p.share(ns))} of the time), since "
        f"{_since(inputs, weights)}.",
        severity,
        shows=names[0],
        ns=ns,
        basis=sample_of(p).basis,
        places=places_of(sites),
        claims=frozenset(f"kernel:{k}@{p.input}" for k in full),
        facts={
            "share of convolutions' time": f"{part(found.share)} ({level})",
            "conversions a step": round(p.per_step(int(found.rows.sum())), 1),
            "kernels": names,
        },
        fixes=_fixes(inputs, weights),
    )


def _since(inputs: bool | None, weights: bool | None) -> str:
    if weights and not inputs:
        return "the weights are channels-last and the inputs are not"
    if inputs and not weights:
        return "the inputs are channels-last and the weights are not"
    return "the tensors are not channels-last where the kernels want them so"


def _fixes(inputs: bool | None, weights: bool | None) -> tuple[Fix, ...]:
    model = Fix("Make the model channels-last: `model.to(memory_format=torch.channels_last)`", "code")
    data = Fix("Make the input channels-last, too: `x.to(memory_format=torch.channels_last)`", "code")
    between = Fix("Keep the layout in between: no `.contiguous()`, `permute` or `view` that goes back to NCHW", "code")
    return tuple(f for f, done in ((model, weights), (data, inputs), (between, False)) if not done)
