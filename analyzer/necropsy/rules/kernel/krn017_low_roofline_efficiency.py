"""Matrix products or convolutions run far below what the GPU can do

What it means
    For each call the recorded shapes tell how many floating-point operations and bytes it
    needs, and the GPU's data sheet how fast those can be at best. These calls are long
    enough to fill the device, and yet take several times as long.

Why it happens
    Most often a size that is no multiple of 8: tensor-core kernels load 16 bytes at a time,
    and for other sizes libraries choose slow kernels (`..._align1`, `..._align2` in their
    names). A vocabulary of 50257 is the classic. Otherwise: long and thin matrices whose
    tiles do not fill the device, unusual layouts, old library versions, a GPU that is
    throttled or shared.

How to confirm
    `torch.utils.benchmark` of one call with the shape reported here, and with its sizes
    rounded up to a multiple of 64.

How to fix
    Pad the size in the model (`nn.Embedding(50304, d)` and ignore the extra classes), or
    choose hidden sizes and batches that are multiples of 64. Where sizes are fine, try
    `torch.compile(mode="max-autotune")`, which measures other kernels.

Limits
    Only calls whose shapes were recorded (`record_shapes=True`) and that need at least
    10 us at the device's limit are judged; without a known device nothing is. Figures are
    of dense arithmetic. More than 110 % of the limit would mean a wrong data sheet: then
    the rule says nothing.

References
    - https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html
    - https://docs.nvidia.com/deeplearning/performance/dl-performance-convolutional/index.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, key_of, ms, part

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile
    from necropsy.trace.roofline import Class

_KINDS = {
    "half": "FP16", "bfloat16": "BF16", "tf32": "TF32", "float": "FP32", "float8": "FP8", "int8": "INT8",
}  # fmt: skip
_FAMILIES = {"matmul": "Matrix products", "convolution": "Convolutions"}


class Thresholds(Struct, frozen=True):
    """`low` and `middling`: efficiency below which a class is a warning, a note (TraceLens: 0.3 and 0.6).

    `share` of the steps' time that a warning needs, `note_share` that of a note; `calls` at least.
    """

    low: float = 0.3
    middling: float = 0.6
    share: float = 0.05
    note_share: float = 0.2
    calls: int = 3


@rule("KRN017", "low-roofline-efficiency", Severity.WARNING, settings=Thresholds, general=True)
def check(traces: Traces, generated: InductorKernels | None, t: Thresholds) -> Iterator[Finding]:
    """One finding a function, family and arithmetic."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.opwork import opwork_of
        from necropsy.trace.roofline import classes

        w = opwork_of(p)
        for c in classes(p):
            low, share = c.efficiency < t.low, w.share(c.ns)
            if c.calls < t.calls or 2 * c.steps < len(p.steps):
                continue
            if (low and share >= t.share) or (c.efficiency < t.middling and share >= t.note_share):
                yield _finding(p, c, generated, Severity.WARNING if low else Severity.NOTE)


def _finding(p: Profile, c: Class, generated: InductorKernels | None, severity: Severity) -> Finding:
    from necropsy.trace.generated import places_of
    from necropsy.trace.opwork import opwork_of

    w = opwork_of(p)
    kind = _KINDS[c.kind]
    why = f": for the size {c.bad_size}, no multiple of 8, there are only slow kernels" if c.bad_size else ""
    return about(
        p,
        f"{_FAMILIES[c.family]} in {kind}{in_function(c.place)} take {ms(p.per_step(c.ns))} of each {p.step_word} "
        f"({part(w.share(c.ns))} of the time) at {part(c.efficiency)} of the speed that this GPU allows{why}.",
        severity,
        shows=c.kernels[0] if c.kernels else "",
        ns=w.scaled(c.ns),
        basis=w.basis,
        places=places_of(p, generated, c.rows) or [c.place],
        confidence=Confidence.LIKELY if c.bad_size else Confidence.POSSIBLE,
        event=f"roofline:{c.family}:{c.kind}:{key_of(c.place)}@{p.input}",
        claims=frozenset(f"kernel:{k}@{p.input}" for k in c.kernels),
        facts={
            "calls": c.calls,
            "largest": c.largest.words,
            "reached (TFLOP/s)": round(c.flops / c.ns / 1e3, 1),
            "estimated gain at the limit": f"{ms(p.per_step(c.ns - c.least))} a {p.step_word}",
        },
        fixes=_fixes(c),
    )


def _fixes(c: Class) -> tuple[Fix, ...]:
    if not c.bad_size:
        return (
            Fix("Choose sizes (batch, hidden, channels) that are multiples of 64", "code"),
            Fix('Let `torch.compile(mode="max-autotune")` measure other kernels for these shapes', "code"),
        )
    padded = -(-c.bad_size // 64) * 64
    return (Fix(f"Pad the size {c.bad_size} to {padded} (a multiple of 64) in the model and ignore the rest", "code"),)
