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

    A kernel of an Nsight Compute report is judged by the cycles in which the tensor pipe was active.

How to confirm
    `ncu --section ComputeWorkloadAnalysis`: the tensor pipe near 0% while the kernel is a product. In the
    profiler's table of kernels look for `sgemm`, `scudnn`, `simt` or `f32f32_f32f32`;
    kernels on Tensor Cores have `884`, `1688`, `16816`, `tensorop`, `wgmma`, `hmma` or
    `nvjet` in their names.

How to fix
    FP32 on V100 or T4: train under `torch.autocast("cuda", dtype=torch.float16)` with a
    `GradScaler`. In 16 bits: make sizes multiples of 8 (hidden sizes, channels, vocabulary).

Limits
    Kernels whose names tell nothing (Triton's, a project's own) are not judged, nor calls
    shorter than 20 us, nor those whose bytes take longer than their arithmetic. Whether a
    model bears FP16 the trace does not tell. The article that this project answers asks whether
    `sm__inst_executed_pipe_tensor` is below 0.3 of `sm__inst_executed` while multiprocessors are above 90% and
    tensor cores below 40%. On Hopper one instruction of a warpgroup does the work of many: a BF16 product at 90%
    of the peak shows 0.12. The ratio is a fact here (`ratio` says from where it is remarked), never the verdict;
    `compute_high` and `tensor_low` are the article's other two, of cycles.

References
    - https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/index.html
    - https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Fact, Finding, Fix, Severity
from necropsy.ncu.claim import about as about_launches
from necropsy.ncu.figures import IDLE, compute, could_use_tensor_cores, tensor, tensor_instructions
from necropsy.ncu.groups import groups
from necropsy.ncu.lines import places
from necropsy.ncu.story import clause, event, weaker
from necropsy.rule import Judged, lacking, rule
from necropsy.trace import kernelnames
from necropsy.trace.claim import about, in_function, ms, part, places_of

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile
    from necropsy.trace.roofline import Misfit

_AUTOCAST = Fix('Train under `torch.autocast("cuda", dtype=torch.float16)` with a `GradScaler`', "code")
_ALIGN = Fix("Make hidden sizes, channels and batch multiples of 8", "code")
_CONTIGUOUS = Fix("Give it operands that begin at multiples of 16 bytes: no slices at odd offsets", "code")
_FAMILIES = {"matmul": "Matrix products", "convolution": "Convolutions"}


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time on ordinary cores; `used`: part of such work on Tensor Cores that makes it a choice.

    `compute_high`, `tensor_low` (percent) and `ratio` are the article's: multiprocessors busy, tensor cores not.
    Kineto's TensorBoard plugin asked for none at all; 10 % leaves room for the odd kernel.
    """

    share: float = 0.1
    used: float = 0.1
    compute_high: float = 90.0
    tensor_low: float = 40.0
    ratio: float = 0.3


@rule(
    "KRN018", "tensor-cores-unused", Severity.WARNING, settings=Thresholds,
    aliases=("sm__inst_executed_pipe_tensor", "compute-units-idle"),
)  # fmt: skip
def check(
    traces: Traces | None, kernels: NcuKernels | None, inductor: InductorKernels | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a family and width of numbers; of an Nsight Compute report one a kernel."""
    if kernels is None and traces is None:
        yield lacking(Traces.name, Traces.supply)
    if kernels is not None:
        yield from _profiled(kernels, inductor, traces, t)
    for p in traces.gpu_profiles if traces is not None else ():
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


def _profiled(
    kernels: NcuKernels, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Finding]:
    """Products of a report that tensor cores could do and did not, the most time first."""
    for group in groups(kernels):
        row = group.row
        if (group.share or 0.0) < t.share or (row.capability or (0, 0)) < (7, 0) or not could_use_tensor_cores(row):
            continue
        busy, sm = tensor(row), compute(row) or 0.0
        idle = busy < IDLE if busy is not None else kernelnames.unit(row.kernel) == kernelnames.ORDINARY
        if not idle and not (busy is not None and busy < t.tensor_low and sm > t.compute_high):
            continue
        turing = (row.capability or (8, 0)) < (8, 0) and kernelnames.is_single(row.kernel)
        did = "ordinary cores" if idle else f"ordinary cores more than on tensor cores ({busy:.0f}% of cycles)"
        seen = ", which measured idle" if idle and busy is not None else ", as its name says" if idle else ""
        ratio = tensor_instructions(row)
        facts: dict[str, Fact] = {} if busy is None else {"tensor pipe active": f"{busy:.1f}%"}
        if ratio is not None and ratio < t.ratio:
            facts["tensor instructions of all"] = f"{part(ratio)} (on Hopper no measure of work)"
        yield about_launches(
            group,
            f"{clause(group)} computes {'an FP32' if turing else 'a 16-bit'} product on {did} instead of tensor cores"
            f"{seen}: {'this GPU has them for FP16 only' if turing else 'its sizes or pointers do not fit them'}.",
            Severity.WARNING,
            places=places(group, inductor, traces),
            confidence=Confidence.LIKELY,
            facts=facts,
            event=event("KRN018", group),
            claims=weaker("KRN018", group),
            fixes=(_AUTOCAST,) if turing else (_ALIGN, _CONTIGUOUS),
        )


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
    fixes = (_ALIGN,) if sixteen_bit else (_AUTOCAST,)
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
