"""Matrix products or convolutions ran without the GPU's Tensor Cores

What it means
    The GPU has units for matrix arithmetic that are several times faster than its ordinary
    cores, the recorded calls are of a kind that they can do, and the kernels' names say
    that ordinary cores did them.

Why it happens
    On Volta and Turing (V100, T4) Tensor Cores take FP16 only: a model in FP32 never uses
    them. In FP16 or BF16 a library falls back to ordinary cores for sizes or pointers that
    are not aligned, or for rare layouts and groups. (FP32 on Ampere and newer, where TF32
    would do, is KRN019.)

How to confirm
    In the profiler's table of kernels look for `sgemm`, `scudnn`, `simt` or `f32f32_f32f32`;
    kernels on Tensor Cores have `884`, `1688`, `16816`, `tensorop`, `wgmma`, `hmma` or
    `nvjet` in their names.

How to fix
    FP32 on V100 or T4: train under `torch.autocast("cuda", dtype=torch.float16)` with a
    `GradScaler`. In 16 bits: make sizes multiples of 8 (hidden sizes, channels, vocabulary).

Limits
    Kernels whose names tell nothing (Triton's, a project's own) are not judged, nor calls
    shorter than 20 us, nor those whose bytes take longer than their arithmetic. Whether a
    model bears FP16 the trace does not tell.

References
    - https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/index.html
    - https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part, places_of

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile
    from necropsy.trace.roofline import Misfit

_FAMILIES = {"matmul": "Matrix products", "convolution": "Convolutions"}


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time on ordinary cores; `used`: part of such work on Tensor Cores that makes it a choice.

    Kineto's TensorBoard plugin asked for none at all; 10 % leaves room for the odd kernel.
    """

    share: float = 0.1
    used: float = 0.1


@rule("KRN018", "tensor-cores-unused", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a family and width of numbers."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.opwork import opwork_of
        from necropsy.trace.roofline import cuda_capability, on_ordinary_cores

        capability = cuda_capability(p)
        if capability < (7, 0):
            continue
        for family in ("matmul", "convolution"):
            for sixteen_bit in (True, False):
                if not sixteen_bit and capability >= (8, 0):
                    continue  # TF32 would do: KRN019
                found = on_ordinary_cores(p, sixteen_bit=sixteen_bit, family=family)
                if found is None or opwork_of(p).share(found.ns) < t.share:
                    continue
                if sixteen_bit or found.tensor < t.used * (found.tensor + found.ns):
                    yield _finding(p, found, family, sixteen_bit)


def _finding(p: Profile, found: Misfit, family: str, sixteen_bit: bool) -> Finding:
    from necropsy.trace.opwork import opwork_of

    w = opwork_of(p)
    place = found.sites[0].place if found.sites else None
    device = p.trace.meta.devices[0].name
    what = "in 16 bits" if sixteen_bit else "in FP32"
    why = (
        "although its Tensor Cores do this arithmetic"
        if sixteen_bit
        else "since its Tensor Cores take FP16 and the model does not use it"
    )
    fixes = (
        (Fix("Make hidden sizes, channels and batch multiples of 8", "code"),)
        if sixteen_bit
        else (Fix('Train under `torch.autocast("cuda", dtype=torch.float16)` with a `GradScaler`', "code"),)
    )
    return about(
        p,
        f"{_FAMILIES[family]} {what}{in_function(place)} run on the ordinary cores of the {device} "
        f"for {ms(p.per_step(found.ns))} of each {p.step_word} ({part(w.share(found.ns))} of the time), {why}.",
        Severity.WARNING,
        shows=found.kernels[0],
        ns=w.scaled(found.ns),
        basis=w.basis,
        places=places_of(found.sites),
        confidence=Confidence.LIKELY,
        event=f"ordinary:{family}:{sixteen_bit}@{p.input}",
        claims=frozenset(f"kernel:{k}@{p.input}" for k in found.kernels),
        facts={"kernels": found.calls} | ({"on Tensor Cores": ms(found.tensor)} if found.tensor else {}),
        fixes=fixes,
    )
