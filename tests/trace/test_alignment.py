"""Which sizes of products no wide load fits."""

from __future__ import annotations

from typing import Any

import pytest

from necropsy.trace.alignment import _product, next_multiple

HALF = ["c10::Half", "c10::Half"]


@pytest.mark.parametrize(
    ("dims", "strides", "odd"),
    [
        ([[4096, 1024], [1024, 50257]], [[1024, 1], [1, 1024]], (50257,)),  # the result's rows
        ([[50257, 4096], [4096, 1024]], [[1, 50257], [1024, 1]], (50257,)),  # the first factor, read by columns
        ([[4096, 50257], [50257, 1024]], [[50257, 1], [1024, 1]], (50257,)),
        ([[4099, 1024], [1024, 512]], [[1024, 1], [512, 1]], ()),  # rows of the first factor are not contiguous
        ([[512, 4099], [4099, 1024]], [[1, 512], [1024, 1]], ()),  # gradient of a weight over 4099 tokens
        ([[4096, 1024], [1024, 512]], [[1030, 1], [512, 1]], (1030,)),  # a slice of a wider matrix
        ([[4096, 1001], [1001, 512]], None, (1001,)),
        ([[4096, 1024], [1024, 512]], None, ()),
    ],
)
def test_odd_sizes(dims: Any, strides: Any, odd: tuple[int, ...]) -> None:
    product = _product(0, dims, HALF, strides)
    assert product is not None
    assert product.odd == odd


@pytest.mark.parametrize(
    ("dims", "types"),
    [
        ([[4096, 1001], [1001, 512]], ["float", "float"]),
        ([[1, 1001], [1001, 512]], HALF),  # a vector times a matrix takes other kernels
        ([[4096, 1001]], HALF),
        (None, None),
        ([[4096, "x"], [7, 1]], HALF),
    ],
)
def test_what_is_no_half_precision_product(dims: Any, types: Any) -> None:
    assert _product(0, dims, types, None) is None


def test_multiples() -> None:
    assert (next_multiple(50257), next_multiple(50257, 64), next_multiple(64)) == (50264, 50304, 64)
