"""The layers of the cases: pieces of a small invented tagger (`src/tagger.py`) and of an encoder."""

from __future__ import annotations

from tests.support.engine_cases.build import Layer, T, conv, other, reformat

IMAGE = T("image", "fp32", (8, 3, 224, 224))
LOGITS = T("logits", "fp32", (8, 16))


def half_start() -> list[Layer]:
    """An FP16 beginning: image to FP16, stem, body."""
    x0 = T("x0", "fp16", (8, 3, 224, 224), "HWC8")
    x1 = T("/stem/act/Relu_output_0", "fp16", (8, 64, 112, 112), "HWC8")
    x2 = T("/Relu_output_0", "fp16", (8, 64, 56, 56), "HWC8")
    return [
        reformat("Reformatting CopyNode for Input Tensor 0 to /stem/conv/Conv + /stem/act/Relu", IMAGE, x0, 0.001),
        conv("/stem/conv/Conv + /stem/act/Relu", [x0], x1, 0.11),
        conv("/body/body.0/Conv + /Relu", [x1], x2, 0.09),
    ]


def half_end(source: T) -> list[Layer]:
    """An FP16 end: pooling, head, logits to FP32."""
    p = T("/pool/GlobalAveragePool_output_0", "fp16", (8, source.dims[1], 1, 1), "HWC8")
    y = T("y", "fp16", (8, 16, 1, 1), "HWC8")
    return [
        other("/pool/GlobalAveragePool", "CudaPooling", [source], [p], 0.008),
        conv("/head/Gemm", [p], y, 0.006),
        reformat("Reformatting CopyNode for Output Tensor 0 to /head/Gemm", y, LOGITS, 0.001),
    ]


def body16(name: str, source: T, channels: int = 64, ms: float = 0.1, **more: object) -> tuple[Layer, T]:
    """One FP16 convolution behind `source`."""
    out = T(f"{name}_output_0", "fp16", (source.dims[0], channels, 28, 28), "HWC8")
    return conv(name, [source], out, ms, **more), out  # type: ignore[arg-type]


def quantized(gap: bool) -> list[Layer]:
    """An INT8 network by Q/DQ, with or without a gap before the pooling."""
    q0 = T("image_q", "int8", (8, 3, 224, 224))
    a = T("a", "int8", (8, 64, 112, 112), "CHW32")
    b = T("b", "int8", (8, 64, 56, 56), "CHW32")
    layers = [
        reformat("image_QuantizeLinear", IMAGE, q0, 0.02, "QDQ"),
        conv("stem.conv.weight + stem.conv.weight_QuantizeLinear + /stem/conv/Conv + /stem/act/Relu", [q0], a, 0.05),
        conv("body.0.weight + body.0.weight_QuantizeLinear + /body/body.0/Conv + /Relu", [a], b, 0.04),
    ]
    name = "body.1.weight + body.1.weight_QuantizeLinear + /body/body.1/Conv + /Add + /Relu_1"
    if not gap:
        c = T("c", "int8", (8, 64, 56, 56), "CHW32")
        p = T("p", "int8", (8, 64, 1, 1), "CHW32")
        layers += [conv(name, [b, b], c, 0.04), other("/pool/GlobalAveragePool", "CudaPooling", [c], [p], 0.012)]
    else:
        skip = T("skip", "fp32", (8, 64, 56, 56))
        c = T("c", "fp32", (8, 64, 56, 56))
        g = T("g", "fp32", (8, 64, 1, 1))
        p = T("p", "int8", (8, 64, 1, 1), "CHW32")
        layers += [
            reformat("/Relu_output_0_DequantizeLinear_1", b, skip, 0.015, "QDQ"),
            conv(name, [b, skip], c, 0.09),
            other("/pool/GlobalAveragePool", "CudaPooling", [c], [g], 0.01),
            reformat("/pool/GlobalAveragePool_output_0_QuantizeLinear", g, p, 0.006, "QDQ"),
        ]
    y = T("y", "fp32", (8, 16, 1, 1))
    layers += [
        conv("head.weight + head.weight_QuantizeLinear + /head/Gemm", [p], y, 0.012),
        other("reshape_after_/head/Gemm", "NoOp", [y], [T("logits", "fp32", (8, 16))], 0.0),
    ]
    return layers


def attention(fused: bool, dtype: str = "fp32") -> list[Layer]:
    """One attention of an encoder, as TensorRT 10 and 11 tell it."""
    qkv = T("qkv", dtype, (4, 128, 768))
    scores, weights, mixed = (T(n, dtype, (32, 128, k)) for n, k in (("scores", 128), ("weights", 128), ("mixed", 32)))
    out = T("hidden", dtype, (4, 128, 256))
    tokens = T("tokens", dtype, (4, 128, 256))

    def more(*nodes: str, tactic: str = "") -> dict[str, object]:
        told = "\x1e".join(f"[ONNX Layer: {n}]" for n in nodes)
        return {"TacticName": tactic, "StreamId": 0, "Metadata": told}

    gemm = "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_stage4_warpsize2x2x1_tensor16x8x8"
    before = Layer("/qkv/MatMul_myl0_0", "gemm", [tokens], [qkv], 0.03, more("/qkv/MatMul", tactic=gemm))
    after = Layer("/out/MatMul_myl0_5", "gemm", [mixed], [out], 0.02, more("/out/MatMul", tactic=gemm))
    if fused:
        nodes = ("/MatMul", "/Softmax", "/MatMul_1")
        middle = [Layer("_gemm_mha_v2_myl0_3", "fusion", [qkv], [mixed], 0.02, more(*nodes, tactic="_gemm_mha_v2"))]
    else:
        soft = "__myl_MulMaxrSubExpSumDivMul_0x1caf5120f5395aa4eb8a646f99133c80"
        middle = [
            Layer("/MatMul_myl0_2", "gemm", [qkv], [scores], 0.04, more("/MatMul", tactic=gemm)),
            Layer(
                "__myl_MulMaxrSubExpSumDivMul_myl0_3", "kgen", [scores], [weights], 0.03, more("/Softmax", tactic=soft)
            ),
            Layer("/MatMul_1_myl0_4", "gemm", [weights], [mixed], 0.04, more("/MatMul_1", tactic=gemm)),
        ]
    return [before, *middle, after]
