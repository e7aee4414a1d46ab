"""TF32 tensor cores are there but off for float32 matrix products

What it means
    The GPU (Ampere or newer) could run float32 matrix multiplications on its tensor cores in TF32,
    but torch is set to full float32 precision. On such GPUs TF32 is several times faster.

Why it happens
    Since torch 1.12 the default precision of matrix products is "highest", full float32.
    Convolutions may use TF32 by default, matrix products may not.

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
    comparisons bit by bit. Nothing is gained where products already run in bf16 or fp16, and how
    large the share of float32 products is the message does not tell.

References
    - https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html
    - https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.evidence.perf_hints import PerfHints
from necropsy.evidence.settings import Settings
from necropsy.finding import Finding, Fix, Severity
from necropsy.releases import torch_release
from necropsy.rule import rule

_SET: Final = Fix(
    "Allow TF32 for float32 matrix products if the model bears it", "code",
    command='torch.set_float32_matmul_precision("high")',
)  # fmt: skip
_NEWER: Final = Fix(
    "Since torch 2.9 the same by backend (use one of the two interfaces, not both)", "code",
    command='torch.backends.fp32_precision = "tf32"',
)  # fmt: skip


@rule("KRN019", "tf32-off", Severity.NOTE)
def check(hints: PerfHints, settings: Settings) -> Iterator[Finding]:
    """One note an attempt."""
    release = torch_release(settings)
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
