"""Kernels' names: units, TF32, families."""

from __future__ import annotations

import pytest

from necropsy.trace import kernelnames as k

TENSOR = [
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn",
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn",
    "ampere_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_tn",
    "volta_fp16_s884gemm_fp16_64x128_ldg8_f2f_nn",
    "volta_h884gemm_256x64_ldg8_nn",
    "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
    "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>(x)",
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(x)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off",
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x32x16",
    "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT",
    "nvjet_hsh_192x128_64x5_1x2_h_bz_coopA_NNT",
    "volta_fp16_s884cudnn_fp16_256x128_ldg8_relu_f2f_exp_large_nhwc_tn_v1",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB1",
    "cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64_32x4_nhwc_align8>",
]
ORDINARY = [
    "ampere_sgemm_128x64_nn",
    "volta_sgemm_64x64_tn",
    "volta_scudnn_128x64_relu_xregs_large_nn_v1",
    "cudnn_infer_ampere_scudnn_128x64_relu_xregs_large_nn_v1",
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nn_align1>(x)",
    "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int)",
    "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, true, false, true>(int)",
]
UNTOLD = ["triton_mm", "triton_tem_fused_mm_3", "_ragged_scores_kernel", "kernel_unified_attention_2d", "Kernel2"]


@pytest.mark.parametrize("name", TENSOR)
def test_tensor_cores(name: str) -> None:
    assert k.unit(name) == k.TENSOR


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_cores(name: str) -> None:
    assert k.unit(name) == k.ORDINARY
    assert not k.is_tf32(name)


@pytest.mark.parametrize("name", UNTOLD)
def test_untold(name: str) -> None:
    assert k.unit(name) == k.UNKNOWN


@pytest.mark.parametrize(
    ("name", "double"),
    [
        ("sm90_xmma_gemm_f64f64_f64f64_f64_nt_n_tilesize64x64x16_stage4_warpsize2x2x1_tensor16x8x16", True),
        ("volta_dgemm_128x64_nn", True),
        ("ampere_sgemm_128x64_nn", False),
        ("Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1", False),
    ],
)
def test_double(name: str, double: bool) -> None:
    assert k.is_double(name) is double


def test_products_with_a_vector_are_neither() -> None:
    assert k.unit("void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(x)") == k.VECTOR


@pytest.mark.parametrize(
    ("name", "tf32"),
    [
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(x)", True),
        ("nvjet_sm90_sss_128x128_32x5_2x1_v_coopA_TNT", True),
        ("ampere_s1688cudnn_128x128_ldg4_relu_f2f_exp_medium_nhwc_tn_v1", True),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32", True),
        ("nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT", False),
        ("void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>(x)", False),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", False),
    ],
)
def test_tf32(name: str, tf32: bool) -> None:
    assert k.is_tf32(name) is tf32


def test_alignment_and_short_names() -> None:
    assert k.alignment("cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1") == 1
    assert k.alignment("nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT") is None
    assert k.short("void at::native::(anonymous namespace)::softmax_warp_forward<float, 11>(float*)") == (
        "softmax_warp_forward<float, 11>(float*)"
    )


@pytest.mark.parametrize(
    ("kernel", "function", "told"),
    [
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(T3)",
            "reduce_kernel",
            "reduce_kernel<MeanOps>",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, float, "
            "at::native::binary_internal::MulFunctor<float>>>(int, T2)",
            "vectorized_elementwise_kernel",
            "vectorized_elementwise_kernel<MulFunctor>",
        ),
        (
            "void at::native::<unnamed>::multi_tensor_apply_kernel<at::native::<unnamed>::TensorListMetadata<1>, "
            "at::native::LpNormFunctor<float>>(T1, T2)",
            "multi_tensor_apply_kernel",
            "multi_tensor_apply_kernel<LpNormFunctor>",
        ),
        ("void mine::scan<float, 128>(float *)", "scan", "scan"),
    ],
)
def test_what_a_template_computes(kernel: str, function: str, told: str) -> None:
    assert k.telling(kernel, function, 80) == told


def test_a_name_that_says_nothing_gives_way_to_its_template() -> None:
    kernel = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>(T1::Params)"
    assert k.telling(kernel, "Kernel2", 60) == "cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1"
    assert k.telling(kernel, "Kernel2", 20) == "Kernel2"
