"""Transposed, sliced, expanded: only what is read in another order is a repacking."""

from __future__ import annotations

from typing import Any

import pytest

from necropsy.trace.layout import _COMPUTES, _NAMED, _TRANSPOSES, _reordered


@pytest.mark.parametrize(
    ("strides", "dims", "expected"),
    [
        ([[1536, 128, 1], [128, 131072, 1], []], [[12, 1024, 128], [12, 1024, 128], []], True),
        ([[16744448, 32768, 1], [16777216, 32768, 1], []], [[8, 511, 32768]] * 2, False),  # logits[:, :-1]
        ([[64, 1], [0, 1], []], [[8, 64], [8, 64], []], False),  # expanded
        ([[64, 1], [1, 1], []], [[1, 64], [1, 64], []], False),
        ([[1, 64], []], [[64, 32], []], True),  # clone(from)
        (None, None, False),
        ([], [], False),
    ],
)
def test_order(strides: Any, dims: Any, expected: bool) -> None:
    assert _reordered(strides, dims) is expected


@pytest.mark.parametrize(
    "name",
    [
        "void cudnn::ops::nchwToNhwcKernel<__half>",
        "void cudnn::engines_precompiled::nhwcToNchwKernel<float>",
        "void cudnn::cnn::nhwcToFoldedNhwcKernel<__half>",
        "transpose_NCHW2CNHW_opt.kd",
        "batched_transpose_32x32_dword",
    ],
)
def test_names_of_conversions(name: str) -> None:
    assert _NAMED.search(name)


@pytest.mark.parametrize(
    "name",
    [
        "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<__half, float>",
        "conv_transpose2d_wgrad_kernel",
    ],
)
def test_names_of_other_kernels(name: str) -> None:
    assert not _NAMED.search(name)
    assert not _TRANSPOSES.search(name) or _COMPUTES.search(name)
