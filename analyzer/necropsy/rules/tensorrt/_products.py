"""Layers that are convolutions or matrix products, and what their sizes and kernels are."""

from __future__ import annotations

import math
import re
from typing import Final

from necropsy_parsers.grammars import layer_name
from necropsy_parsers.tensorrt.records import EngineLayer

_KINDS: Final = frozenset(
    """
    convolution deconvolution correlation convactpool conv fc gemm caskgemm matmul matrixmultiply fullyconnected
    """.split()
)
_TYPES: Final = re.compile(r"conv|correlation|gemm|matrix_?multiply|matmul|fully_?connected", re.I)
_FUSED: Final = frozenset({"Fc", "Conv", "Gemm", "Matm", "Corr"})  # as Myelin shortens them in names of fused layers
# Kernels that run on Tensor Cores, and such that cannot: by the names of CUTLASS, cuDNN, cuBLAS and TensorRT's own.
_ON: Final = re.compile(
    r"[hiqdu]mma|gmma|tensorop|_tensor\d+x|(?<![a-z])[hisq]?(?:884|1688|16816|16832|8816)|_i88|nvjet|gemm_mha|_fmha|tcgen05|utcmma",
    re.I,
)
_OFF: Final = re.compile(
    r"simt|[sd]gemm|scudnn|int8x4|ffma|dp4a|gemvx?|^sm(?:3|5|6)\d_|maxwell_|pascal_|implicit_convolve|cuda_?core|depthwise|winograd4x4_sgemm",
    re.I,
)


def is_product(layer: EngineLayer) -> bool:
    """Whether the layer is a convolution, a deconvolution or a matrix product."""
    if layer.moves:
        return False
    kind = layer.shape.kind.lower()
    if kind in _KINDS:
        return True
    if layer.type.endswith("fusion"):
        return bool(_FUSED & set(layer_name.myelin_operations(layer.name)))
    return bool(layer.type) and _TYPES.search(layer.type) is not None and not kind


def depthwise(layer: EngineLayer) -> bool:
    """Whether each channel is convolved alone: such work has no use for Tensor Cores."""
    alone = layer.shape.groups > 1 and layer.shape.groups == layer.shape.out_channels
    for weights in layer.constants[:1]:  # Myelin tells no groups, but the weights' dimensions
        alone = alone or (spatial(layer) and len(weights.dims) >= 4 and weights.dims[1] == 1 and weights.dims[0] > 1)
    return alone or "Depthwise" in layer.type or "depthwise" in layer.tactic.lower()  # logs tell no groups


def tensor_cores(layer: EngineLayer) -> bool | None:
    """Whether the layer's kernel runs on Tensor Cores, None where its name does not tell."""
    tactic = layer.tactic
    if _OFF.search(tactic):
        return False
    return True if _ON.search(tactic) else None


def spatial(layer: EngineLayer) -> bool:
    """Whether the layer is a convolution, whose channels are the second dimension."""
    return bool(layer.shape.kernel) or "onv" in layer.type or layer.type == "correlation"


def channels(layer: EngineLayer) -> tuple[int, int]:
    """Channels in and out of a convolution, or inner and outer size of a product; 0 where untold or dynamic."""
    if not layer.inputs or not layer.outputs:
        return 0, 0
    taken, given = layer.inputs[0].dims, layer.outputs[0].dims
    if spatial(layer):
        inward = taken[1] if len(taken) >= 3 else 0
        return max(inward, 0), layer.shape.out_channels or (given[1] if len(given) >= 3 and given[1] > 0 else 0)
    inward = taken[-1] if taken else 0
    outward = given[-1] if given else 0
    return max(inward, 0), max(outward, 0)


def rows(layer: EngineLayer) -> int:
    """Rows of the product: batch times positions of the output; 0 where dynamic."""
    if not layer.outputs or not layer.outputs[0].dims or any(d < 0 for d in layer.outputs[0].dims):
        return 0
    dims = list(layer.outputs[0].dims)
    if spatial(layer):
        dims[1:2] = []
    else:
        dims = dims[:-1]
    total = 1
    for d in dims:
        total *= d
    return total


def work(layer: EngineLayer) -> int:
    """Multiplications of the product; 0 where sizes are dynamic or untold."""
    inward, outward = channels(layer)
    return rows(layer) * inward * outward * math.prod(layer.shape.kernel or (1,)) // max(layer.shape.groups, 1)
