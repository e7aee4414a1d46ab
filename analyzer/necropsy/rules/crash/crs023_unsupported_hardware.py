"""The GPU lacks what the program asks of it

What it means
    The build of torch (or of a kernel library) holds no code for this GPU, or the GPU
    does not know the number format or instruction that was asked for.

Why it happens
    A GPU newer or older than the wheel was built for; bfloat16 before Ampere, FP8 before
    Ada and Hopper, FlashAttention 2 before Ampere.

How to confirm
    `torch.cuda.get_device_capability()` against `torch.cuda.get_arch_list()`.

How to fix
    Install a build for the GPU's architecture, or choose a format or kernel that the GPU has.

Limits
    The warning that a GPU is not supported is a note unless something failed after it.

References
    - https://developer.nvidia.com/cuda-gpus
    - https://docs.pytorch.org/docs/stable/generated/torch.cuda.get_arch_list.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_exception, from_record, match, one_line, said, saying
from necropsy.conditions import NO_KERNELS
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.python_warnings import PythonWarnings
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule

_ARCH: Final = Fix(
    "Install a build of torch (or of the kernel package) made for this GPU's architecture",
    "command",
    command="python -c 'import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list())'",
)
SAYINGS: Final = (
    saying(
        (
            r"no kernel image is available for execution on the device"
            r"|PTX was compiled with an unsupported toolchain"
            r"|invalid device function"
            r"|no binary for gpu"
        ),
        "The build holds no code for this GPU's architecture (no kernel image for the device).",
        _ARCH,
    ),
    saying(
        (
            r"(?P<gpu>[^\n]{0,60}?)with CUDA capability sm_(?P<sm>\d+\w?) "
            r"is not compatible with the current PyTorch installation"
        ),
        "This torch has no code for the GPU {gpu} (architecture sm_{sm}): unsupported hardware.",
        _ARCH,
        holds=("with CUDA capability sm_",),
    ),
    saying(
        r"Found GPU\d* (?P<gpu>[^\n]{0,60}?)which is of (?:compute|cuda) capability (?P<cc>[\d.]+)",
        "The GPU {gpu} (compute capability {cc}) is older than this torch supports.",
        _ARCH,
    ),
    saying(
        (
            r"(?P<what>"
            r"[Cc]urrent CUDA Device does not support bfloat16"
            r"|[Bb]f(?:loat)?16(?: mixed precision)?(?:/gpu)? (?:is )?"
            r"(?:requires|only supported on|not supported|is only supported)[^\n]*"
            r"|Your setup doesn't support bf16[^\n]*"
            r"|does not support bfloat16 compilation natively[^\n]*)"
        ),
        "The GPU does not support bfloat16: {what}.",
        Fix("Use float16 on this GPU (fp16 with a GradScaler), or run on Ampere or newer", "config"),
    ),
    saying(
        (
            r"(?P<what>"
            r"FlashAttention[\w-]* only supports? (?:Ampere|Hopper|Ada)[^\n]*"
            r"|FlashAttention forward only supports[^\n]*"
            r"|FlashAttention is only supported on CUDA)"
        ),
        "The GPU is too old for this kernel: {what}.",
        Fix("Use another attention implementation (sdpa, eager), or run on a GPU that it supports", "config"),
    ),
    saying(
        (
            r"(?P<what>[^\n]{0,80}(?:[Ff][Pp]8|float8|e4m3|e5m2|scaled_mm)"
            r"[^\n]{0,80}(?:compute capability|only supported on|requires|not supported|CUDA devices with)[^\n]*)"
        ),
        "The GPU has no FP8: {what}.",
        Fix("Use bfloat16 or float16, or run on a GPU of compute capability 8.9 or newer", "config"),
        holds=("p8", "P8", "float8", "e4m3", "e5m2", "scaled_mm"),
    ),
    saying(
        (
            r"(?P<what>[^\n]{0,100}(?:requires?|need|needs|only supports?|supported on) "
            r"(?:a )?(?:GPUs? with )?(?:CUDA |GPU )?(?:device )?(?:compute )?capability[^\n]*)"
        ),
        "The GPU's compute capability is too low: {what}.",
        Fix("Run on a GPU that has it, or turn the feature off", "config"),
        holds=("capability",),
    ),
)


@rule("CRS023", "unsupported-hardware", Severity.FATAL)
def check(exceptions: Exceptions, warnings: PythonWarnings) -> Iterator[Finding]:
    """Exceptions that say it, and torch's warning about an unknown architecture."""
    for row in exceptions:
        if (found := match(SAYINGS, row)) is not None:
            yield from_exception(row, said(found), fixes=found[0].fixes, shows=frozenset({NO_KERNELS}))
    for w in warnings:
        hit = next(((s, m) for s in SAYINGS[1:3] if (m := s.pattern.search(w.message))), None)
        if hit is not None:
            yield from_record(
                w,
                said(hit),
                Severity.NOTE,
                fixes=hit[0].fixes,
                facts={"warning": one_line(w.message)},
                leaves=frozenset({NO_KERNELS}),
            )
