"""Kernels: products below the device's limit, on ordinary cores, one that dominates, times that vary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.tracing import TraceBuilder

BF16 = "c10::BFloat16"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)"  # noqa: E501


def products(
    kernel: str, us: float, *, sizes: tuple[int, int, int] = (4096, 4096, 4096), kind: str = BF16, calls: int = 4,
    device: str = "h100", rest_us: float = 400, options: tuple[str, ...] = ("with_stack", "record_shapes"),
    other: str = "", steps: int = 3,
) -> TraceBuilder:  # fmt: skip
    """Steps of some matrix products in `score`, and an addition; `other` is a second product's kernel."""
    t = TraceBuilder(device, options=options)
    m, k, n = sizes
    shapes = "record_shapes" in options
    dims, types = ([[m, k], [k, n]], [kind, kind]) if shapes else (None, None)
    with t.frame("rank_items.py(90): <module>", "rank_items.py(58): main"):
        for number in range(steps):
            with t.step(number):
                with t.frame("rank_items.py(31): score"):
                    for _ in range(calls):
                        with t.op("aten::mm", dims=dims, types=types):
                            t.launch(kernel, us=us)
                        if other:
                            with t.op("aten::mm", dims=dims, types=types):
                                t.launch(other, us=us)
                    with t.op("aten::add", dims=[[m, n], [m, n]] if shapes else None, types=types):
                        t.launch(ELEMENTWISE, us=rest_us)
                with t.op("aten::item"):
                    t.wait()
    return t


def convolutions(kernel: str, us: float, *, device: str, kind: str = "float", second: str = "") -> TraceBuilder:
    """Steps of three convolutions of 3 x 3 in `encode`."""
    t = TraceBuilder(device)
    dims = [[32, 128, 56, 56], [128, 128, 3, 3], [], [], [], [], [], [], []]
    types = [kind, kind, *["ScalarList"] * 3, *["Scalar"] * 4]
    concrete = ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1", "False", "False", "True"]
    values: dict[str, Any] = {"Concrete Inputs": concrete}
    with t.frame("spot_defects.py(70): <module>", "spot_defects.py(44): fit"):
        for number in range(3):
            with t.step(number):
                with t.frame("spot_defects.py(19): encode"):
                    for name in (kernel, second or kernel, second or kernel):
                        with t.op("aten::cudnn_convolution", dims=dims, types=types, **values):
                            t.launch(name, us=us)
                with t.op("aten::item"):
                    t.wait()
    return t


def varying(times: Sequence[float], *, sizes: Sequence[int] | None = None) -> TraceBuilder:
    """Steps of a normalisation whose kernel takes these times; `sizes` of its input, if they differ."""
    t = TraceBuilder("a100")
    kernel = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)"  # noqa: E501
    with t.frame("fit_tagger.py(80): <module>", "fit_tagger.py(51): main"):
        for number in range(3):
            with t.step(number):
                with t.frame("fit_tagger.py(24): tag"):
                    for at, us in enumerate(times):
                        rows = sizes[at] if sizes else 8192
                        with t.op("aten::native_layer_norm", dims=[[rows, 1024], [], [1024], [1024], []],
                                  types=[BF16, "ScalarList", BF16, BF16, "Scalar"]):  # fmt: skip
                            t.launch(kernel, us=us, grid=(rows, 1, 1))
                        with t.op("aten::mm", dims=[[8192, 1024], [1024, 1024]]):
                            t.launch("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn", us=90)
                with t.op("aten::item"):
                    t.wait()
    return t


def mixed(kernel: str, us: float) -> TraceBuilder:
    """Steps of products in BF16, and one of another kind in `covariance`."""
    t = TraceBuilder("h100")
    kind = "double" if "f64" in kernel else "float"
    with t.frame("rank_items.py(90): <module>", "rank_items.py(58): main"):
        for number in range(3):
            with t.step(number):
                with t.frame("rank_items.py(31): score"):
                    for _ in range(6):
                        with t.op("aten::mm", dims=[[4096, 4096], [4096, 4096]]):
                            t.launch(NVJET, us=200)
                dims = [[1024, 4096], [4096, 1024]]
                with t.frame("rank_items.py(40): covariance"), t.op("aten::mm", dims=dims, types=[kind, kind]):
                    t.launch(kernel, us=us)
                with t.op("aten::item"):
                    t.wait()
    return t


DOUBLE = "sm90_xmma_gemm_f64f64_f64f64_f64_nt_n_tilesize64x64x16_stage4_warpsize2x2x1_tensor16x8x16_kernel"
ALIGN1 = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>(cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1::Params)"  # noqa: E501
NVJET = "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT"
SGEMM = "ampere_sgemm_128x64_nn"
TF32 = "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4::Params)"  # noqa: E501
XMMA = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"  # noqa: E501
NVJET_TF32 = "nvjet_sm90_sss_128x128_32x5_2x1_v_coopA_TNT"
SCUDNN = "volta_scudnn_128x64_relu_xregs_large_nn_v1"
CONV_TF32 = "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_kernel_cudnn"  # noqa: E501
CONV_FP32 = "sm80_xmma_fprop_implicit_gemm_indexed_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize128x128x8_stage3_warpsize2x2x1_g1_ffma_aligna4_alignc4_execute_kernel__5x_cudnn"  # noqa: E501

# 2 * 4096^3 operations are 139 us at the 989 TFLOPS of an H100 and 278 us at the 494 of TF32.
CASES = {
    "KRN017/silent-odd-vocabulary": lambda: products(ALIGN1, 1500, sizes=(4096, 1024, 32003)),
    "KRN017/fires-slow-for-no-told-reason": lambda: products(NVJET, 900),
    "KRN017/silent-near-the-limit": lambda: products(NVJET, 200),
    "KRN017/silent-bound-by-memory": lambda: products(NVJET, 120, sizes=(16, 8192, 16384), calls=8),
    "KRN017/silent-too-small-to-fill-the-device": lambda: products(NVJET, 24, sizes=(512, 512, 512), calls=12),
    "KRN017/silent-without-shapes": lambda: products(NVJET, 900, options=("with_stack",)),
    "KRN017/silent-faster-than-the-data-sheet": lambda: products(NVJET, 60),
    "KRN018/fires-float32-on-volta": lambda: convolutions(SCUDNN, 2600, device="v100"),
    "KRN018/fires-half-on-ordinary-cores": lambda: products(
        "void cutlass::Kernel2<cutlass_80_simt_hgemm_128x128_8x5_nn_align1>(cutlass_80_simt_hgemm_128x128_8x5_nn_align1::Params)",  # noqa: E501
        2100, sizes=(4096, 4093, 4096), kind="c10::Half", device="a100",
    ),
    "KRN018/silent-half-on-volta": lambda: convolutions(
        "volta_fp16_s884cudnn_fp16_256x128_ldg8_relu_f2f_exp_large_nhwc_tn_v1", 400, device="v100", kind="c10::Half"
    ),
    "KRN018/silent-kernels-of-triton": lambda: products("triton_tem_fused_mm_3", 800, device="a100"),
    "KRN018/silent-vector-products": lambda: products(
        "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4, false, true, cublasGemvParamsEx<int> >(cublasGemvParamsEx<int>, float, float)",  # noqa: E501
        60, sizes=(1, 8192, 16384), device="a100",
    ),
    "KRN019/fires-trace-of-sgemm": lambda: products(SGEMM, 8000, kind="float", device="a100"),
    "KRN019/fires-trace-of-xmma-without-shapes": lambda: products(XMMA, 4000, options=("with_stack",)),
    "KRN019/fires-trace-of-convolutions": lambda: convolutions(CONV_FP32, 2000, device="a100"),
    "KRN019/silent-trace-of-tf32": lambda: products(TF32, 1100, kind="float", device="a100"),
    "KRN019/silent-trace-of-tf32-by-nvjet": lambda: products(NVJET_TF32, 400, kind="float"),
    "KRN019/silent-trace-of-volta": lambda: products("volta_sgemm_128x64_nn", 9000, kind="float", device="v100"),
    "KRN019/silent-trace-some-convolutions-in-fp32": lambda: convolutions(
        CONV_FP32, 900, device="a100", second=CONV_TF32
    ),
    "KRN023/fires-covariance-in-double": lambda: mixed(DOUBLE, 400),
    "KRN023/silent-covariance-in-single": lambda: mixed(NVJET_TF32, 40),
    "KRN023/silent-small-share": lambda: mixed(DOUBLE, 20),
    "KRN020/fires-attention-written-as-one-kernel": lambda: products(
        "_ragged_scores_kernel", 900, options=("with_stack",), rest_us=600
    ),
    "KRN020/silent-two-halves": lambda: products("_ragged_scores_kernel", 300, other="_ragged_sums_kernel"),
    "KRN021/fires-some-calls-stall": lambda: varying([60, 62, 61, 60, 1500, 61]),
    "KRN021/silent-sizes-differ": lambda: varying(
        [60, 62, 61, 60, 1500, 61], sizes=[8192, 8192, 8192, 8192, 204800, 8192]
    ),
    "KRN021/silent-steady": lambda: varying([600, 610, 605, 602, 640, 700]),
}  # fmt: skip
