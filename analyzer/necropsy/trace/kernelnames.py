"""What names of kernels say: which unit computes, and what family they are of.

Libraries encode the instruction in a kernel's name (`s16816gemm`: the tensor instruction of
16 x 8 x 16; `sgemm`: FP32 on ordinary cores). A name that says nothing is `UNKNOWN`:
kernels of Triton and of users may use either.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

TENSOR, ORDINARY, VECTOR, UNKNOWN = "tensor", "ordinary", "vector", "unknown"

# cuBLAS, cuDNN, CUTLASS (SM70 to SM120), hipBLASLt and MIOpen (matrix cores: `_MI16x16x1`, `xdlops`).
_TENSOR: Final = re.compile(
    r"nvjet_|tensorop|wgmma|hgmma|gmma|[hi]mma|_mma_|tf32"
    r"|[shi](?:884|1688|16816|161616|8816|16832|64x)(?:gemm|cudnn|fprop|dgrad|wgrad|_|\b)"
    r"|(?:s|h|i|bf16_s|fp16_s)\d{3,6}gemm|xmma_\w*?(?:bf16|f16|e4m3|e5m2|i8)\w*"
    r"|_MI\d+x\d+x\d|xdl|igemm_\w*_gtcx|sm(?:90|100|103|120)_xmma|^(?:bmm|gemm)_(?:Mx|E4m3|Bfloat16|Fp16)",
)
# FP32 outside tensor cores. `f32f32_f32f32_f32` is what xmma kernels are called whose inputs stay FP32.
_ORDINARY: Final = re.compile(
    r"(?:ampere|volta|turing|maxwell|pascal|sm\d+)_(?:sgemm|scudnn|hgemm_\d|hcudnn)|\bsgemm_|simt_|_simt"
    r"|cutlass_\d+_simt|xmma_\w*_f32f32_f32f32_f32|implicit_convolve_[sh]gemm|convolve_sgemm"
    r"|cudnn::detail::(?:dgrad|wgrad|implicit)\w*|gemm_(?:32x32|64x64)\w*_float",
)
# Products with a vector: bound by memory whatever computes them.
_VECTOR: Final = re.compile(r"gemv|gemvx|gemmSN|gemmk1|gemm_small|dot_kernel|splitKreduce|reduce_1Block")
_ATTENTION: Final = re.compile(
    r"flash|fmha|attn_fwd|attn_bwd|attention|mem_eff|efficient_attention|sdpa|_fwd_kernel_splitkv", re.I
)
_ELEMENTWISE: Final = re.compile(r"elementwise_kernel|CatArrayBatchedCopy")
_LAYOUT: Final = re.compile(
    r"nchwToNhwc|nhwcToNchw|NCHWToNHWC|NHWCToNCHW|nchwToNc|convertTensor|tensorTransform|batched_transpose|SubTensorOp"
)
_ALIGN: Final = re.compile(r"_align(\d{1,9})(?!\d)")
# What a template of torch computes, which its own name does not say (`reduce_kernel<512, 1, ReduceOp<float, MeanOps<`),
# and a kernel of CUTLASS's, all of which are `Kernel2`. Not the classes that only bind one operand.
_WITHIN: Final = re.compile(
    r"\b(?!gpu_kernel|distribution_|\w*(?:Unary|Binary)\w*Functor|opmath_)"
    r"(cutlass_\d+_\w+|CUDAFunctor\w+|\w+(?:Functor|Ops|_functor|_kernel_cuda|_kernel_impl|_kernel|KernelImpl))\b"
)
_EMPTY: Final = frozenset(("Kernel", "Kernel2", "device_kernel"))  # of CUTLASS: the template alone tells
_NAMESPACES: Final = re.compile(r"\b(?:at|c10|native|std|__detail|cuda|detail|cub|thrust)::|\(anonymous namespace\)::")


def is_double(name: str) -> bool:
    """Whether a product's or convolution's kernel computes in FP64."""
    return bool(re.search(r"dgemm|f64f64|d884gemm|dmma|convolve_dgemm|Cijk_\w+_DB_|[<, ]double\b.*gemm", name))


@lru_cache(maxsize=65536)
def unit(name: str) -> str:
    """Which unit a matrix product's or convolution's kernel computes on."""
    if name.startswith("triton_"):
        return UNKNOWN
    if _VECTOR.search(name):
        return VECTOR
    if re.search(r"_f32f32_f32f32_f32", name):
        return ORDINARY
    if _TENSOR.search(name):
        return TENSOR
    return ORDINARY if _ORDINARY.search(name) else UNKNOWN


def is_tf32(name: str) -> bool:
    """Whether a kernel takes FP32 inputs to tensor cores."""
    return unit(name) == TENSOR and bool(
        re.search(r"tf32|tensorop_s1688|nvjet_(?:sm\d+_)?s[a-z]{2}_|(?:ampere|sm80)_s1688(?:gemm|cudnn)", name)
    )


def is_single(name: str) -> bool:
    """Whether a product's or convolution's kernel takes FP32 inputs to ordinary cores."""
    return unit(name) == ORDINARY and not is_double(name) and not re.search(r"hgemm|hcudnn|_h(?:alf)?_|<__half", name)


def is_convolution(name: str) -> bool:
    """Whether a library's kernel is a convolution: an implicit product, as most are, or another."""
    return bool(re.search(r"conv|cudnn|fprop|dgrad|wgrad|winograd", name, re.I))


def is_attention(name: str) -> bool:
    """Whether a kernel is a fused attention."""
    return bool(_ATTENTION.search(name))


def is_elementwise(name: str) -> bool:
    """Whether a kernel is one of torch's for a single element-wise operation."""
    return bool(_ELEMENTWISE.search(name)) and not name.startswith("triton_")


def is_layout(name: str) -> bool:
    """Whether a kernel only changes the layout of a tensor for a library."""
    return bool(_LAYOUT.search(name))


def alignment(name: str) -> int | None:
    """Elements by which a CUTLASS kernel's operands are aligned; None where the name does not say."""
    m = _ALIGN.search(name)
    return int(m[1]) if m else None


def short(name: str, most: int = 72) -> str:
    """A kernel's name for a sentence: without namespaces, template and arguments beyond `most` characters."""
    plain = _NAMESPACES.sub("", name.removeprefix("void ")).strip()
    if len(plain) <= most:
        return plain
    head = plain.partition("(")[0]
    if len(head) <= most:
        return head
    return head[: most - 3] + "..."


def telling(kernel: str, function: str, most: int) -> str:
    """The function's name with what its template computes, if that is told and fits: `reduce_kernel<MeanOps>`."""
    start = kernel.find(f"{function}<")
    within = _WITHIN.search(kernel, start + len(function) + 1) if start >= 0 else None
    if within is None:
        return function
    name = within[1] if function in _EMPTY else f"{function}<{within[1]}>"
    return name if len(name) <= most else function
