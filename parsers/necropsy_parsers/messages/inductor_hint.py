"""Inductor's hints on performance, and the operators that it leaves to eager kernels.

    Using FallbackKernel: torch.ops.aten.convolution_backward.default
    Creating implicit fallback for:
      target: mylib.fused_bias.default
      args[0]: TensorBox(StorageBox(...))
    possibly bad tiling: [{'y': 12288, 'x': 400, 'r0_': 1}, {'x': 4915200, 'r0_': 1}]
    .../torch/_inductor/compile_fx.py:322: UserWarning: TensorFloat32 tensor cores for float32 matrix multiplication
    available but not enabled. Consider setting `torch.set_float32_matmul_precision('high')` for better performance.
    Not enough SMs to use max_autotune_gemm mode

Templates: torch/_inductor/{graph,lowering,compile_fx,utils,ir}.py, codegen/{triton,simd}.py and
fx_passes/fuse_attention.py.
Fallback kernels are named once a graph in the artifact `perf_hints`; implicit fallbacks (operators for which
Inductor has no lowering) are logged at INFO, each with its arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "inductor_hint"
TITLE: Final = "Inductor's hints on performance and its fallbacks"
TRIGGERS: Final = (
    b"Using FallbackKernel: ",
    b"Creating implicit fallback for:",
    b"is missing a c-shim implementation",
    b"missing lowering",
    b"missing decomposition",
    b"possibly bad tiling: ",
    b"eduction over non-contiguous dims",
    b"Found optimal tiling with ",
    b"Skip comprehensive padding",
    b"TensorFloat32 tensor cores",
    b"ot enough SMs to use max_autotune",
    b"does not support max_autotune_gemm mode",
    b"Online softmax is disabled on the fly",
    b"does not support code generation for complex",
    b"using ATen backend as fallback",
)
READS: Final = (
    Reads("perf_hints", "2.1", "fallback kernels, tilings, paddings, reductions"),
    Reads("", "2.1", "implicit fallbacks, TF32, too few SMs, online softmax, complex operators"),
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "Using FallbackKernel: torch.ops.aten.convolution_backward.default": {
        "op": "aten.convolution_backward", "via": "kernel",
    },
    "Creating implicit fallback for:\n  target: mylib.fused_bias.default\n  args[0]: TensorBox(StorageBox(": {
        "op": "mylib.fused_bias", "via": "implicit",
    },
    "Not enough SMs to use max_autotune_gemm mode": {"kind": "sms"},
    "possibly bad tiling: [{'x': 8, 'y': 4}, {'x': 32}]": {"kind": "tiling"},
    "/venv/lib/python3.12/site-packages/torch/_inductor/compile_fx.py:322: UserWarning: TensorFloat32 tensor cores for "
    "float32 matrix multiplication available but not enabled. Consider setting "
    "`torch.set_float32_matmul_precision('high')` for better performance.": {"kind": "tf32"},
}  # fmt: skip
_FALLBACK: Final = lazily(
    r"Using FallbackKernel: (?P<kernel>[\w.:]+)"
    r"|(?:Creating implicit fallback for:|(?P<missing>missing lowering|missing decomposition))"
    r"(?:\s*\n?\s*target: (?P<target>[\w.:]+))?"
    r"|(?P<shim>[\w.:]+) is missing a c-shim implementation"
)
_HINTS: Final = (
    ("tiling", lazily(r"possibly bad tiling: [^\n]*")),
    ("strided reduction", lazily(r"[Rr]eduction over non-contiguous dims")),
    ("tiles", lazily(r"Found optimal tiling with [^\n]*")),
    ("padding", lazily(r"Skip comprehensive padding [^\n]*")),
    ("flash", lazily(r"TensorFloat32 tensor cores [^\n]*? but not enabled\. Skipping pattern matching")),
    ("tf32", lazily(r"TensorFloat32 tensor cores [^\n]*? but not enabled(?!\. Skipping)")),
    ("sms", lazily(r"[Nn]ot enough SMs to use max_autotune_gemm mode")),
    ("sms", lazily(r"GPU arch does not support max_autotune_gemm mode")),
    ("softmax", lazily(r"Online softmax is disabled on the fly")),
    ("complex", lazily(r"does not support code generation for complex operators")),
    ("gemm", lazily(r"(?:No|All) choices for [^\n]*?using ATen backend as fallback")),
)


class InductorFallback(Record, frozen=True):
    """One operator that runs as an eager kernel between the generated ones.

    `op` is its name without `torch.ops.` and overload (`default`), "" where the log is cut. `via`: kernel (Inductor
    registered a fallback, or the operator has a kernel of its own), implicit (it has neither lowering nor registered
    fallback), shim (called through the proxy executor of AOTInductor) or missing (compilation ended for want of it).
    """

    op: str
    via: str


class InductorHint(Record, frozen=True):
    """One hint. `kind`: tiling, strided reduction, tiles, padding, tf32, flash, sms, softmax, complex or gemm."""

    kind: str
    text: str


def plain_op(name: str) -> str:
    """An operator's name as users write it: `torch.ops.aten.mm.default` and `aten::mm` are `aten.mm`."""
    name = name.rstrip(".:").removeprefix("torch.ops.").replace("::", ".")
    return name.removesuffix(".default")


def read(message: Message) -> Iterator[Record]:
    """The fallbacks and hints in `message`."""
    for m in _FALLBACK.finditer(message.text):
        if m["missing"] and (message.exception is None or not m["target"]):
            continue  # other programs miss other things
        via = "kernel" if m["kernel"] else "shim" if m["shim"] else "missing" if m["missing"] else "implicit"
        op = plain_op(m["kernel"] or m["target"] or m["shim"] or "")
        yield InductorFallback(message.anchor, op, via, **message.common)
    for kind, pattern in _HINTS:
        for m in pattern.finditer(message.text):
            yield InductorHint(message.anchor, kind, " ".join(m[0].split()), **message.common)
