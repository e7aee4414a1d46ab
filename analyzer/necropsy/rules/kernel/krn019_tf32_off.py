"""TF32 tensor cores are there but off for float32 matrix products

What it means
    The GPU (Ampere or newer) could run float32 matrix multiplications on its tensor cores in TF32,
    but torch is set to full float32 precision. On such GPUs TF32 is several times faster.

Why it happens
    Since torch 1.12 the default precision of matrix products is "highest", full float32.
    Convolutions may use TF32 by default, matrix products may not. A program can turn off either.

How to confirm
    `torch.get_float32_matmul_precision()` prints `highest`. In a profile the kernels of the
    products are named `sgemm` or `f32f32` without `tf32`.

How to fix
    `torch.set_float32_matmul_precision("high")` once, before anything is compiled. Since torch 2.9
    the same is `torch.backends.cuda.matmul.fp32_precision = "tf32"`, or
    `torch.backends.fp32_precision = "tf32"` for all backends; use one of the two interfaces, not
    both. Or train in bf16 with autocast.

Limits
    TF32 rounds inputs to 10 bits of mantissa: harmless in most training, not in solvers or in
    comparisons bit by bit. Nothing is gained where products already run in bf16 or fp16. How
    large the share of float32 products is a log does not tell: it stays a note. A profiler's
    trace does: there the kernels' names must say that FP32 ran outside the tensor cores, calls
    shorter than 20 us and those that the memory limits do not count, and where TF32 kernels
    are there too, the program has allowed it and the rule keeps silent. Of an Nsight Compute report
    the same is asked of names, and tensor cores must have been idle where that was measured.

References
    - https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html
    - https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.perf_hints import PerfHints
from necropsy.evidence.settings import Settings
from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.ncu.claim import about as about_launches
from necropsy.ncu.claim import kernel_name
from necropsy.ncu.groups import groups
from necropsy.ncu.lines import places
from necropsy.ncu.story import weaker
from necropsy.releases import torch_release
from necropsy.rule import rule
from necropsy.trace import kernelnames
from necropsy.trace.claim import about, in_function, ms, part, places_of

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile
    from necropsy.trace.roofline import Misfit

_AMPERE: Final = (8, 0)
# Shares of cycles, the surest first; instruction counts tell nothing on Hopper, where one does the work of many.
_TENSOR_PIPE: Final = (
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
)
_IDLE: Final = 1.0  # percent


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time in float32 products from which a trace is worth a warning.

    `used`: part of such work that ran as TF32 from which the program has allowed it: libraries
    take ordinary cores for a few shapes all the same.
    """

    share: float = 0.1
    used: float = 0.1


_SET: Final = Fix(
    "Allow TF32 for float32 matrix products if the model bears it", "code",
    command='torch.set_float32_matmul_precision("high")',
)  # fmt: skip
_NEWER: Final = Fix(
    "Since torch 2.9 the same by backend (use one of the two interfaces, not both)", "code",
    command='torch.backends.fp32_precision = "tf32"',
)  # fmt: skip


_AUTOCAST: Final = Fix('Or train in BF16: `torch.autocast("cuda", dtype=torch.bfloat16)`', "code")
_CONVOLUTIONS: Final = Fix(
    "Allow TF32 for convolutions again", "code", command="torch.backends.cudnn.allow_tf32 = True"
)


@rule("KRN019", "tf32-off", Severity.NOTE, settings=Thresholds)
def check(
    hints: PerfHints | None,
    settings: Settings | None,
    traces: Traces | None,
    kernels: NcuKernels | None,
    t: Thresholds,
) -> Iterator[Finding]:
    """One note an attempt of a log; of a trace one warning for products and one for convolutions; one a kernel."""
    if hints is not None:
        yield from _warned(hints, settings)
    measured = [f for p in (traces.gpu_profiles if traces is not None else ()) if not p.graphs for f in _measured(p, t)]
    yield from measured
    if kernels is not None:
        yield from _once(_profiled(kernels, traces, t), measured)


def _once(profiled: Iterable[Finding], measured: Iterable[Finding]) -> Iterator[Finding]:
    """One switch is off, however many kernels it concerns: all follow from what a trace shows, or from the longest."""
    shown = {f.fixes: f.event for f in measured}
    longest: dict[tuple[object, str], str] = {}
    for finding in profiled:
        lead = shown.get(finding.fixes) or longest.setdefault((finding.fixes, finding.anchor.input), finding.event)
        yield finding if lead == finding.event else replace(finding, follows=lead)


def _profiled(kernels: NcuKernels, traces: Traces | None, t: Thresholds) -> Iterator[Finding]:
    """Kernels of an Nsight Compute report that do FP32 products on ordinary cores, the most time first."""
    allowed = {row.anchor.input for row in kernels.own if kernelnames.is_tf32(row.kernel)}
    for group in groups(kernels):
        row = group.row
        if row.anchor.input in allowed or (row.capability or (0, 0)) < _AMPERE:
            continue
        if (group.share or 0.0) < t.share or not kernelnames.is_single(row.kernel):
            continue
        busy = row.value(*_TENSOR_PIPE)
        if busy is not None and busy >= _IDLE:
            continue
        family = "convolution" if kernelnames.is_convolution(row.kernel) else "matmul"
        words = "a float32 matrix product" if family == "matmul" else "a float32 convolution"
        idle = "which measured idle" if busy is not None else "as its name says"
        share = f" ({part(group.share or 0)} of the profiled time)"
        yield about_launches(
            group,
            f"{kernel_name(group)} computes {words} on ordinary cores for {ms(group.ns or 0)}{share} instead of tensor "
            f"cores, {idle}: TF32 is off.",
            Severity.WARNING,
            places=places(group, None, traces),
            confidence=Confidence.LIKELY,
            facts={} if busy is None else {"tensor pipe active": f"{busy:.1f}%"},
            event=f"ordinary:{row.kernel}@{row.anchor.input}",
            claims=weaker("KRN019", group),
            fixes=(_SET, _NEWER, _AUTOCAST) if family == "matmul" else (_CONVOLUTIONS, _AUTOCAST),
        )


def _measured(p: Profile, t: Thresholds) -> Iterator[Finding]:
    from necropsy.trace.opwork import opwork_of
    from necropsy.trace.roofline import cuda_capability, on_ordinary_cores

    if cuda_capability(p) < _AMPERE:
        return
    for family in ("matmul", "convolution"):
        found = on_ordinary_cores(p, sixteen_bit=False, family=family)
        if found is None or opwork_of(p).share(found.ns) < t.share:
            continue
        if found.tensor < t.used * (found.tensor + found.ns):
            yield _of_trace(p, found, family)


def _of_trace(p: Profile, found: Misfit, family: str) -> Finding:
    from necropsy.trace.opwork import opwork_of
    from necropsy.trace.roofline import peaks_for

    w = opwork_of(p)
    place = found.sites[0].place if found.sites else None
    words = "Float32 matrix products" if family == "matmul" else "Float32 convolutions"
    peaks = peaks_for(p)
    times = round(peaks.tf32 / peaks.single, 1) if peaks is not None and peaks.single else 0.0
    faster = {"peak of TF32 against FP32": f"{times:g} times"} if times > 1 else {}
    return about(
        p,
        f"{words}{in_function(place)} take {ms(p.per_step(found.ns))} of each {p.step_word} "
        f"({part(w.share(found.ns))} of the time) at full precision on ordinary cores: TF32, which would run them "
        "on this GPU's tensor cores, is off.",
        Severity.WARNING,
        shows=found.kernels[0],
        ns=w.scaled(found.ns),
        basis=w.basis,
        places=places_of(found.sites),
        confidence=Confidence.LIKELY,
        event=f"ordinary:{family}:False@{p.input}",
        claims=frozenset(f"kernel:{k}@{p.input}" for k in found.kernels),
        facts={"kernels": found.calls, **faster},
        fixes=(_SET, _NEWER, _AUTOCAST) if family == "matmul" else (_CONVOLUTIONS, _AUTOCAST),
    )


def _warned(hints: PerfHints, settings: Settings | None) -> Iterator[Finding]:
    release = torch_release(settings) if settings is not None else None
    told: set[int] = set()
    for row in sorted(hints, key=lambda r: r.kind != "flash"):  # what is lost besides is worth more words
        if row.kind not in ("tf32", "flash") or row.attempt in told:
            continue
        told.add(row.attempt)
        lost = ", and attention is not fused into flash-attention for the same reason" if row.kind == "flash" else ""
        yield Finding(
            message="TF32 is off: float32 matrix products run at full precision without the tensor cores of this GPU"
            f"{lost}.",
            anchor=row.anchor,
            severity=Severity.NOTE,
            ranks=row.ranks,
            facts={"warned": row.count},
            fixes=(_SET,) if release is not None and release < (2, 9) else (_SET, _NEWER),
            seq=row.seq,
            attempt=row.attempt,
            time=row.origin.time,
            count=row.count,
            event=f"tf32@{row.anchor.input}:{row.seq}",
        )
