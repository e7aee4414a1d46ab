"""Floating-point operations and bytes of matrix products and convolutions, from the shapes a trace recorded."""

from __future__ import annotations

import math
from typing import Any, Final

from msgspec import Struct

# Type as traces spell it -> (kind of arithmetic, bytes of an element).
TYPES: Final = {
    "float": ("float", 4),
    "c10::Half": ("half", 2),
    "c10::BFloat16": ("bfloat16", 2),
    "c10::Float8_e4m3fn": ("float8", 1),
    "c10::Float8_e5m2": ("float8", 1),
    "c10::Float8_e4m3fnuz": ("float8", 1),
    "c10::Float8_e5m2fnuz": ("float8", 1),
    "signed char": ("int8", 1),
    "double": ("double", 8),
}
SIXTEEN_BIT: Final = ("half", "bfloat16")

# Operator -> position of the first factor; the second follows it.
_PRODUCTS: Final = {
    "aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1, "aten::_addmm_activation": 1,
    "aten::_scaled_mm": 0, "aten::_int_mm": 0, "aten::addmm_": 1, "aten::baddbmm_": 1, "aten::addbmm": 1,
}  # fmt: skip
_CONVOLUTIONS: Final = (
    "aten::cudnn_convolution", "aten::miopen_convolution", "aten::cudnn_convolution_relu",
    "aten::cudnn_convolution_add_relu",
)  # fmt: skip
CONVOLUTION_BACKWARD: Final = "aten::convolution_backward"
OPERATORS: Final = (*_PRODUCTS, *_CONVOLUTIONS, CONVOLUTION_BACKWARD)
PRODUCTS: Final = tuple(_PRODUCTS)


class Work(Struct, frozen=True):
    """What one call computes: `flops`, `bytes` that it reads and writes at least once, and with what.

    `family` is matmul or convolution; `kind` the arithmetic (a value of `TYPES`); `sizes` the
    dimensions that tensor instructions want to be multiples of 8, with their letters.
    """

    family: str
    kind: str
    flops: float
    bytes: float
    sizes: tuple[int, ...]
    words: str


def work_of(name: str, dims: Any, types: Any, values: Any) -> Work | None:
    """The work of a call, or None if its arguments do not tell it."""
    try:
        if name in _PRODUCTS:
            return _product(dims, types, _PRODUCTS[name])
        if name in _CONVOLUTIONS:
            return _convolution(dims, types, values)
        if name == CONVOLUTION_BACKWARD:
            return _convolution_backward(dims, types, values)
    except (TypeError, ValueError, IndexError, KeyError, OverflowError, AttributeError):
        pass
    return None


def _product(dims: list[list[int]], types: list[str], first: int) -> Work | None:
    a, b = dims[first], dims[first + 1]
    kind, size = TYPES[types[first]]
    if len(a) != len(b) or len(a) not in (2, 3) or a[-1] != b[-2]:
        return None
    batch = a[0] if len(a) == 3 else 1
    m, k, n = a[-2], a[-1], b[-1]
    if min(batch, m, k, n) <= 0:
        return None
    out = 2 if kind in ("float8", "int8") else size
    moved = batch * ((m * k + k * n) * size + m * n * out)
    words = f"[{m}, {k}] x [{k}, {n}]" + (f" x {batch}" if batch > 1 else "")
    return Work("matmul", kind, 2.0 * batch * m * k * n, float(moved), (m, k, n), words)


def _convolution(dims: list[list[int]], types: list[str], values: list[Any]) -> Work | None:
    image, weight = dims[0], dims[1]
    kind, size = TYPES[types[0]]
    padding, stride, dilation = (_numbers(v) for v in values[2:5])
    space = [
        (x + 2 * p - d * (k - 1) - 1) // s + 1
        for x, k, p, s, d in zip(
            image[2:], weight[2:], _spread(padding, image), _spread(stride, image), _spread(dilation, image),
            strict=True,
        )
    ]  # fmt: skip
    return _convolved(image, weight, [image[0], weight[0], *space], kind, size, 1)


def _convolution_backward(dims: list[list[int]], types: list[str], values: list[Any]) -> Work | None:
    out, image, weight = dims[0], dims[1], dims[2]
    kind, size = TYPES[types[1]]
    if str(values[7]) != "False":
        return None
    passes = sum(word.strip(" []") == "True" for word in str(values[10]).split(",")[:2])
    return _convolved(image, weight, out, kind, size, passes) if passes else None


def _convolved(image: list[int], weight: list[int], out: list[int], kind: str, size: int, passes: int) -> Work | None:
    if len(image) != len(weight) or len(image) < 3 or min(*image, *weight, *out) <= 0:
        return None
    flops = 2.0 * math.prod(out) * math.prod(weight[1:]) * passes
    moved = float(math.prod(image) + math.prod(weight) + math.prod(out)) * size * passes
    words = f"{image} * {weight}"
    return Work("convolution", kind, flops, moved, (image[1], weight[0]), words)


def _numbers(value: Any) -> list[int]:
    return [int(v) for v in str(value).strip("[]() ").split(",")]


def _spread(numbers: list[int], image: list[int]) -> list[int]:
    rank = len(image) - 2
    return numbers * rank if len(numbers) == 1 else numbers
