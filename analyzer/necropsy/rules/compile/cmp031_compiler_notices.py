"""Notices of the compiler that look like faults and are none

What it means
    Inductor tells at WARNING or INFO what it chose not to do. None of these ends or breaks
    anything.

Why it happens
    "Not enough SMs to use max_autotune_gemm mode": the GPU has fewer than 68 multiprocessors (or is
    an older AMD one), so matrix products keep their library kernels. "Online softmax is disabled on
    the fly": the reduction is split over blocks instead. "possibly bad tiling": several layouts
    meet in one kernel, and some access is not contiguous. "No choices for GEMM, using ATen
    backend": the library kernel is used. Operators on complex numbers get no generated kernels.

How to confirm
    Time a step: what a notice costs, if anything, only a measurement tells.

How to fix
    Usually nothing. For "found optimal tiling with N tiles" raise
    `torch._inductor.config.triton.max_tiles` and measure; for reductions over non-contiguous
    dimensions make the input contiguous in the reduced dimension, or set
    `torch._inductor.config.triton.tile_reductions = True` (torch 2.7 and later). On a GPU with few
    multiprocessors `mode="max-autotune-no-cudagraphs"` is no faster than the default for matrix
    products.

Limits
    Hints name no line. They are counted, not judged.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.evidence.perf_hints import PerfHints
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule

_WORDS: Final = {
    "sms": "This GPU has too few multiprocessors (SMs) for max-autotune of matrix products, or is of an older design, "
    "so library kernels run them: no fault.",
    "softmax": "Inductor split a softmax over blocks instead of computing it in one pass: no fault.",
    "complex": "Operators on complex numbers get no generated kernels and run as eager ones.",
    "gemm": "Matrix products run on the library's kernels because no template was allowed or valid: no fault.",
    "tiles": "A kernel would be tiled in more dimensions than max_tiles allows.",
    "strided reduction": "A reduction runs over dimensions that are not contiguous in memory.",
    "tiling": "Several memory layouts meet in one kernel, so that some of its accesses are not contiguous.",
}
_FIXES: Final = {
    "tiles": Fix("Raise it and measure", "config", command="torch._inductor.config.triton.max_tiles = 3"),
    "strided reduction": Fix("Make the input contiguous in the reduced dimension, and measure", "code"),
}


@rule("CMP031", "compiler-notices", Severity.NOTE)
def check(hints: PerfHints) -> Iterator[Finding]:
    """One note for each kind and attempt."""
    for row in hints:
        if row.kind not in _WORDS:
            continue
        yield Finding(
            message=_WORDS[row.kind],
            anchor=row.anchor,
            severity=Severity.NOTE,
            ranks=row.ranks,
            facts={"times": row.count},
            fixes=(_FIXES[row.kind],) if row.kind in _FIXES else (),
            seq=row.seq,
            attempt=row.attempt,
            time=row.origin.time,
            count=row.count,
            event=f"hint:{row.kind}@{row.anchor.input}:{row.seq}",
        )
