"""A kernel's grid is too small for the GPU

What it means
    The kernel was launched with fewer blocks than the GPU has multiprocessors, or with less than one
    full wave of them: while it runs, part of the GPU has nothing to do. Neither faster memory nor
    faster arithmetic would help it; percentages of its busy multiprocessors (L1, say) mislead.

Why it happens
    The work is small (a batch of one, a reduction to few numbers), or it is divided badly: one block
    per row of a matrix with few rows, a single block that does everything.

How to confirm
    `ncu --section LaunchStats --section SpeedOfLight`: `Waves Per SM` below 1, and SM Active Cycles
    far below Elapsed Cycles.

How to fix
    Give the kernel more to do at once (larger batch, several small products in one batched call), let
    more blocks share the work (split the long dimension, cooperative writes), fuse it with its
    neighbours (`torch.compile`), or let others run beside it (streams, CUDA graphs).

Limits
    Of the multiprocessors, not of what each block does in its time. What is lost is the part of the
    GPU that is idle while the kernel runs, times the kernel's part of the profiled time: below
    `loss` it stays a note. Kernels below `share` of that time are passed over, as are grids that keep
    memory or arithmetic above 60% of their peaks or all but a tenth of the multiprocessors at work.

References
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#metrics-reference
    - https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#thread-and-block-heuristics
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.ncu_rules import NcuRule, NcuRules
from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.ncu.advice import ATTENTION, BATCH, CONVOLUTION, OWN, PRODUCT, kind_of
from necropsy.ncu.claim import about, kernel_name
from necropsy.ncu.groups import Group, groups
from necropsy.ncu.lines import places
from necropsy.ncu.story import weaker
from necropsy.rule import Judged, lacking, rule
from necropsy.trace.claim import ms, part

_WAVES: Final = "launch__waves_per_multiprocessor"
_TOLD: Final = ("small grid", "grid is too small", "grid for this launch is configured to execute only")


class Thresholds(Struct, frozen=True):
    """`waves` of blocks below which a grid is small, `busy`: percent of a peak from which it is no loss; both NVIDIA's.

    `share` of the profiled time below which a kernel is passed over; `idle`: part of the GPU without work from which it
    counts; `loss`: idle part times share from which it is a warning.
    """

    waves: float = 1.0
    busy: float = 60.0
    share: float = 0.001
    idle: float = 0.1
    loss: float = 0.02


@rule("KRN002", "small-grid", Severity.WARNING, settings=Thresholds)
def check(
    kernels: NcuKernels, rules: NcuRules, inductor: InductorKernels | None, traces: Traces | None, t: Thresholds
) -> Iterator[Judged]:
    """One finding a kernel, grid and place."""
    if kernels.own and all(r.blocks is None and r.value(_WAVES) is None for r in kernels.own):
        yield lacking("grids of the launches", "ncu --section LaunchStats --section SpeedOfLight")
    for group in groups(kernels):
        row = group.row
        said = [r for r in rules.of(row.seq) if r.kind in ("OPT", "WRN") and _says(r)]
        if not _small(row, t) and not said:
            continue
        if row.workload != "kernel" or _busy(row, t) or (group.share is not None and group.share < t.share):
            continue
        if _idle(row) < t.idle:
            continue
        yield _finding(group, said, t, (inductor, traces))


def _says(r: NcuRule) -> bool:
    words = f"{r.title} {r.message}".lower()
    return any(told in words for told in _TOLD)


def _small(row: NcuKernel, t: Thresholds) -> bool:
    """Fewer blocks than multiprocessors, or than fit at once."""
    waves, blocks, sms = row.value(_WAVES), row.blocks, row.sms
    if waves is not None and waves < t.waves:
        return True
    return blocks is not None and (blocks == 1 or (sms is not None and blocks < sms))


def _busy(row: NcuKernel, t: Thresholds) -> bool:
    return any((row.pct(unit) or 0.0) >= t.busy for unit in ("sm", "gpu__compute_memory"))


def _idle(row: NcuKernel) -> float:
    """Part of the GPU without work while the kernel runs: measured, else by its blocks (0 to 1)."""
    if row.active is not None:
        return 1 - row.active
    if row.blocks is not None and row.sms:
        return max(0.0, 1 - row.blocks / row.sms)
    waves = row.value(_WAVES)
    return 1 - min(1.0, waves) if waves is not None else 1.0


def _finding(
    group: Group, said: list[NcuRule], t: Thresholds, beside: tuple[InductorKernels | None, Traces | None]
) -> Finding:
    row = group.row
    waves, active, sms = row.value(_WAVES), row.active, row.sms
    size = "a single block" if row.blocks == 1 else f"{row.blocks:,} blocks" if row.blocks else "few blocks"
    of = f" for {sms} multiprocessors" if sms else ""
    full = f" ({waves:.2g} of a full wave)" if waves is not None and waves < 1 else ""
    idle = f"{part(1 - active)} of the GPU" if active is not None else "part of the GPU"
    time = f" for {ms(group.ns)}" if group.ns is not None else ""
    share = f", {part(group.share)} of the profiled time" if group.share is not None and group.share < 0.995 else ""
    worth = group.share is None or group.share * _idle(row) >= t.loss
    gains = [r.global_gain for r in said if r.global_gain is not None]
    return about(
        group,
        f"Small grid: {kernel_name(group)} runs {size}{of}{full}, so that {idle} is idle{time}{share}.",
        Severity.WARNING if worth else Severity.NOTE,
        gain=_idle(row),
        places=places(group, *beside),
        confidence=Confidence.CERTAIN if said or waves is not None or active is not None else Confidence.LIKELY,
        facts=({} if waves is None else {"waves per multiprocessor": round(waves, 3)})
        | ({} if active is None else {"multiprocessors active": part(active)})
        | ({} if not gains else {"speed-up by NVIDIA's estimate, at most": f"{max(gains):.0f}%"}),
        fixes=_fixes(row),
        event=f"grid:{row.kernel}:{row.grid}@{row.anchor.input}",
        claims=weaker("KRN002", group),
    )


def _fixes(row: NcuKernel) -> tuple[Fix, ...]:
    kind = kind_of(row)
    if kind == CONVOLUTION:
        return (Fix("Convolve a larger batch at once, so that the grid fills the GPU", "code"),)
    if kind in (PRODUCT, ATTENTION):
        return (
            Fix("Batch small products: one `torch.bmm`, or a larger batch, instead of many small calls", "code"),
            Fix("Or launch it with its neighbours as one CUDA graph (`torch.compile(mode='reduce-overhead')`)", "code"),
        )
    if kind != OWN:
        return (
            BATCH,
            Fix("Let torch.compile fuse it with its neighbours", "code", command="model = torch.compile(model)"),
        )
    return (
        Fix("Let more blocks share the work: split the longest dimension over blocks", "code"),
        Fix("Fuse the kernel into its neighbour, or run it beside others on another stream", "code"),
    )
