"""What can be done about a kernel, by who wrote it: torch's and libraries' from Python, one's own in its code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from necropsy.finding import Fix
from necropsy.trace import kernelnames

if TYPE_CHECKING:
    from necropsy.evidence.ncu_kernels import NcuKernel

_COPY: Final = re.compile(r"direct_copy_kernel|CatArrayBatchedCopy|copy_device_to_device")
_CAST: Final = re.compile(r"(?:bfloat16|float16|float8\w*|half)_?copy_kernel")
_GATHER: Final = re.compile(r"gather|index_(?:select|elementwise|put|copy)|indexSelect|indexing_backward|embedding"
                            r"|scatter", re.I)  # fmt: skip
_RANDOM: Final = re.compile(r"distribution_|philox|fused_dropout", re.I)
_REDUCE: Final = re.compile(r"reduce_kernel|softmax|SoftMax|layer_?norm|batch_?norm|rms_?norm|cub::Device(?:Reduce|Scan"
                            r"|Segmented|Radix)", re.I)  # fmt: skip
_PRODUCT: Final = re.compile(r"gemm|gemv|xmma|nvjet|cutlass|splitK|cublas|Cijk_", re.I)
# Namespaces; where only functions are printed (`--print-kernel-base function`), names that torch alone gives.
_LIBRARY: Final = re.compile(
    r"\bat::|\bc10::|cudnn|cublas|nccl|\bcub::|thrust::|tensorrt|flashinfer|vllm::"
    r"|\b(?:(?:vectorized|unrolled|index)_elementwise_kernel|distribution_elementwise_grid_stride_kernel"
    r"|vectorized_gather_kernel|vectorized_layer_norm_kernel|multi_tensor_apply_kernel|CatArrayBatchedCopy\w*"
    r"|indexSelect(?:Large|Small)Index|cunn_SoftMax\w*|softmax_warp_(?:for|back)ward)\b"
)

COPY, CAST, ELEMENTWISE, GATHER, RANDOM, REDUCE = "copy", "cast", "elementwise", "gather", "random", "reduction"
ATTENTION, CONVOLUTION, PRODUCT, LAYOUT = "attention", "convolution", "product", "layout"
COMPILED, TORCH, OWN = "compiled", "torch", "own"

COMPILE: Final = Fix("Let torch.compile fuse it with its neighbours, so that its tensors are read and written once",
                     "code", command="model = torch.compile(model)")  # fmt: skip
HALF: Final = Fix('Use 16 bits where the model bears it: `torch.autocast("cuda", dtype=torch.bfloat16)`',
                  "code")  # fmt: skip
TUNE: Final = Fix("Let torch.compile try other block sizes", "code",
                  command='model = torch.compile(model, mode="max-autotune")')  # fmt: skip
BATCH: Final = Fix("Give it more to do at once: a larger batch, or several tensors in one call", "code")
CHANNELS: Final = Fix("Keep model and input in channels_last", "code",
                      command="model = model.to(memory_format=torch.channels_last)")  # fmt: skip
NO_COPY: Final = Fix(
    "Avoid the copy: drop `.contiguous()` where the consumer takes strides (matrix products do), or make the tensor in "
    "the layout in which it is read", "code",
)  # fmt: skip
_ROWS: Final = Fix("Gather fewer, longer rows: sort the indices or remove duplicates, and keep the numbers of a "
                   "row together (last dimension contiguous)", "code")  # fmt: skip
_SDPA: Final = Fix("Use `F.scaled_dot_product_attention`, which keeps the scores on the chip", "code")
_DRAW: Final = Fix("Draw the numbers once and reuse them, or where they are needed (torch.compile does)",
                   "code")  # fmt: skip
_TILES: Final = Fix(
    "Keep what is read again in shared memory or registers, and read 16 bytes a thread (`float4`)", "code"
)
_ILP: Final = Fix("Start more loads before the first is needed: unroll, several elements a thread, `cp.async` or "
                  "`num_stages` in Triton", "code")  # fmt: skip

_MEMORY: Final = {
    COPY: (NO_COPY, COMPILE), CAST: (COMPILE, Fix("Cast once, and keep the 16-bit copy", "code")),
    ELEMENTWISE: (COMPILE, HALF), GATHER: (_ROWS, HALF), RANDOM: (_DRAW, HALF), REDUCE: (COMPILE, HALF),
    ATTENTION: (_SDPA, HALF), CONVOLUTION: (CHANNELS, HALF), PRODUCT: (HALF, BATCH), LAYOUT: (CHANNELS,),
    COMPILED: (HALF, Fix("Look for graph breaks beside it: what stands in one graph is fused into one pass", "code")),
    TORCH: (COMPILE, HALF), OWN: (_TILES, Fix("Store in 16 bits what bears it", "code")),
}  # fmt: skip
_LATENCY: Final = {
    COPY: (NO_COPY, COMPILE), CAST: (COMPILE,), ELEMENTWISE: (COMPILE, BATCH), GATHER: (_ROWS, COMPILE),
    RANDOM: (_DRAW,), REDUCE: (COMPILE, BATCH), ATTENTION: (_SDPA, BATCH), CONVOLUTION: (BATCH, CHANNELS),
    PRODUCT: (BATCH, TUNE), LAYOUT: (CHANNELS,), COMPILED: (TUNE, BATCH), TORCH: (COMPILE, BATCH), OWN: (_ILP,),
}  # fmt: skip
_COMPUTE: Final = {
    PRODUCT: (HALF, TUNE), CONVOLUTION: (HALF, CHANNELS), ATTENTION: (HALF, _SDPA), RANDOM: (_DRAW,),
    OWN: (Fix("Use cheaper instructions: 16-bit pairs, fast intrinsics, integer division by constants only", "code"),),
}  # fmt: skip


def kind_of(row: NcuKernel) -> str:
    """What a kernel does, as its name tells; `own` for what no library is known to have."""
    name = row.kernel
    if row.compiled or row.function.startswith("triton_"):
        return COMPILED
    tests = (
        (kernelnames.is_layout, LAYOUT), (_CAST.search, CAST), (_COPY.search, COPY), (_RANDOM.search, RANDOM),
        (kernelnames.is_attention, ATTENTION), (_GATHER.search, GATHER), (kernelnames.is_elementwise, ELEMENTWISE),
        (_REDUCE.search, REDUCE),
    )  # fmt: skip
    library = _LIBRARY.search(name) is not None
    found = next((kind for test, kind in tests if test(name)), "")
    if found and (library or found in (LAYOUT, ATTENTION)):
        return found
    if _PRODUCT.search(name) and not kernelnames.is_convolution(name):
        return PRODUCT
    if kernelnames.is_convolution(name) and (library or kernelnames.unit(name) != kernelnames.UNKNOWN):
        return CONVOLUTION
    return TORCH if library else OWN


def against_memory(row: NcuKernel) -> tuple[Fix, ...]:
    """Where bytes are the limit."""
    return _MEMORY[kind_of(row)]


def against_latency(row: NcuKernel) -> tuple[Fix, ...]:
    """Where it waits, and neither bytes nor arithmetic are the limit."""
    return _LATENCY[kind_of(row)]


def against_compute(row: NcuKernel) -> tuple[Fix, ...]:
    """Where arithmetic is the limit."""
    return _COMPUTE.get(kind_of(row), (COMPILE, HALF))


def is_own(row: NcuKernel) -> bool:
    """Whether it is a kernel whose code the user writes; those of torch.compile are tuned from Python."""
    return kind_of(row) == OWN


def is_library(row: NcuKernel) -> bool:
    """Whether it came with torch or a library: nothing but the Python that calls it can change."""
    return kind_of(row) not in (OWN, COMPILED)


def is_strided(row: NcuKernel) -> bool:
    """Whether a copy of torch says that an operand is not contiguous.

    `gpu_kernel` launches `elementwise_kernel` where `vectorized_elementwise_kernel` cannot be: for strided, broadcast
    or converted operands. Of these a plain copy (`direct_copy_kernel`) has strides only.
    """
    return row.function == "elementwise_kernel" and _COPY.search(row.kernel) is not None
