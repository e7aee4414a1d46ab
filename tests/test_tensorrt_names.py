"""Names of layers and formats of tensors, in the forms that TensorRT 7 to 11 prints."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from necropsy_parsers.grammars import layer_name, tensor_format

NAMES = {
    "Conv_0": ("node", ["Conv_0"]),
    "conv1.weight + QuantizeLinear_7 + Conv_9 + MaxPool_12": (
        "chain",
        ["conv1.weight", "QuantizeLinear_7", "Conv_9", "MaxPool_12"],
    ),
    "Conv_12 + PWN(PWN(Sigmoid_13), Mul_14)": ("chain", ["Conv_12", "Sigmoid_13", "Mul_14"]),
    "PWN(PWN(/act/Sigmoid), PWN(/act/Mul))": ("pointwise", ["/act/Sigmoid", "/act/Mul"]),
    "b1/conv + b1/relu || b2/reduce + b2/relu": ("beside", ["b1/conv", "b1/relu", "b2/reduce", "b2/relu"]),
    "{ForeignNode[/norm/ReduceMean.../head/Add]}": ("foreign", ["/norm/ReduceMean", "/head/Add"]),
    "{ForeignNode[/head/Add]}": ("foreign", ["/head/Add"]),
    "{ForeignNode[onnx::MatMul_71 + ONNXTRT_Broadcast_12.../Softmax]}": ("foreign", ["onnx::MatMul_71", "/Softmax"]),
    "{ForeignNode[Transpose_1 + (Unnamed Layer* 12) [Shuffle]...MatMul_5]}": ("foreign", ["Transpose_1", "MatMul_5"]),
    "(Unnamed Layer* 354) [Shuffle]": ("node", []),
    "a/foo,bar/Conv2D;a/bn/Fused, x + Relu": ("chain", ["a/foo,bar/Conv2D;a/bn/Fused, x", "Relu"]),
    "PWN(model/re(lu)/x(1), b)": ("pointwise", ["model/re(lu)/x(1)", "b"]),
    "__myl_AddReshTran_myl0_5": ("node", []),
    "__mye22172+__mye22160+__mye22148_myl0_18": ("node", []),
    "/qkv/MatMul_myl0_6": ("node", ["/qkv/MatMul"]),
    "[CONVOLUTION]-[aten_ops.convolution.default]-[/c/convolution] + [RELU]-[aten_ops.relu.default]-[/relu]": (
        "chain",
        ["/c/convolution", "/relu"],
    ),
    "/model.2/act/Mul_output_0 copy": ("copy", ["/model.2/act/Mul_output_0"]),
}


@pytest.mark.parametrize("name", NAMES)
def test_nodes_of_a_name(name: str) -> None:
    told = layer_name.parse(name)
    assert (told.kind, list(told.nodes)) == NAMES[name]
    assert told.understood


@pytest.mark.parametrize("name", [n for n in NAMES if not n.endswith(" copy")])
@pytest.mark.parametrize("side", ["Input", "Output"])
def test_a_reformat_names_whose_tensor_it_changes(name: str, side: str) -> None:
    told = layer_name.parse(f"Reformatting CopyNode for {side} Tensor 1 to {name}")
    assert (told.kind, told.target, told.side, told.index) == ("reformat", name, side.lower(), 1)
    assert list(told.nodes) == NAMES[name][1]


def test_what_the_optimizer_made_is_of_something() -> None:
    names = {
        "unsqueeze_node_after_fc.bias": ("made", "fc.bias"),
        "reshape_after_Gemm_48": ("made", "Gemm_48"),
        "copied_squeeze_after_(Unnamed Layer* 361) [ElementWise]": ("made", "(Unnamed Layer* 361) [ElementWise]"),
        "onnx::Conv_61_clone_1": ("made", "onnx::Conv_61"),
        "ONNXTRT_Broadcast_12": ("helper", "ONNXTRT_Broadcast_12"),
        "node_of_relu_1": ("node", "node_of_relu_1"),
    }
    assert {n: (p.kind, p.of) for n in names for p in [layer_name.part(n)]} == names


def test_metadata_lists_nodes_with_and_without_separators() -> None:
    assert layer_name.metadata_nodes("[ONNX Layer: /a][ONNX Layer: /b[0]]\x1e[ONNX Layer: c]") == ("/a", "/b[0]", "c")
    assert layer_name.metadata_nodes("") == ()


FORMATS = {
    "Half(64,1:8,448,64)": ("fp16", "HWC8", 8),
    "Int8(25088,3136:32,56,1)": ("int8", "CHW32", 32),
    "Half(150528,1,672,3)": ("fp16", "HWC", 1),
    "Float((* 256 time),256,1)": ("fp32", "CHW", 1),
    "BFloat16(E0,1)": ("bf16", "CHW", 1),
    "Float()": ("fp32", "CHW", 1),
    "Row major linear FP32": ("fp32", "CHW", 1),
    "Row major Int8 format": ("int8", "CHW", 1),
    "Channel major FP16 format where channel % 8 == 0": ("fp16", "HWC8", 8),
    "Channel major FP16 format where channel % 8 == 0 with 3 spatial dimensions": ("fp16", "DHWC8", 8),
    "Thirty-two wide channel vectorized row major Int8 format": ("int8", "CHW32", 32),
    "Thirty-two wide channel vectorized row major Int8 format with 3 spatial dimensions": ("int8", "CDHW32", 32),
    "Eight channel BF16 format (kHWC8) where C is padded to a multiple of 8": ("bf16", "HWC8", 8),
    "Row major linear FP4 format (kLINEAR)": ("fp4", "CHW", 1),
    "Non-vectorized channel-last FP32 format": ("fp32", "HWC", 1),
    "Channel major FP16 format where channel == 4 and column stride % 32 == 0": ("fp16", "DLA_HWC4", 1),
    "(Linear) Row major linear format": ("", "CHW", 1),
    "(NHWC) Channel major format": ("", "HWC", 1),
    "(NC/32HW32) Thirty-two wide channel vectorized format": ("", "CHW32", 32),
    "(Transposed) Transposed format": ("", "transposed", 1),
    "(Arbitrary) Format with stride order [2,0,1]": ("", "strided", 1),
    "N/A due to dynamic shapes": ("", "dynamic", 1),
    "Unknown format": ("", "", 1),
    "Checkered FP16 format": ("fp16", "", 1),
}


@pytest.mark.parametrize("text", FORMATS)
def test_formats(text: str) -> None:
    told = tensor_format.parse(text)
    assert (told.dtype, told.layout, told.pack, told.raw) == (*FORMATS[text], text)


@pytest.mark.parametrize("head", ["", "(NHWC) ", "(Linear) "])
@pytest.mark.parametrize("dtype", ["", "Half"])
@pytest.mark.parametrize("end", ["", " FP32", " Int8 format", " FP16 format where channel % 8 == 0"])
def test_common_formats_are_what_the_grammar_makes_of_them(
    monkeypatch: pytest.MonkeyPatch, head: str, dtype: str, end: str
) -> None:
    words = ("Row major linear", "Row major", "Channel major", "Thirty-two wide channel vectorized row major")
    quick = [tensor_format.parse.__wrapped__(head + w + end, dtype) for w in words]
    monkeypatch.setattr(tensor_format, "_COMMON", re.compile("(?!)"))
    tensor_format.parse.cache_clear()
    assert quick == [tensor_format.parse.__wrapped__(head + w + end, dtype) for w in words]
    tensor_format.parse.cache_clear()


def test_what_no_sentence_of_the_grammar_begins_with_is_read_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded() -> None:
        raise AssertionError("the grammar was loaded")

    monkeypatch.setattr(tensor_format, "grammar", loaded)
    tensor_format.parse.cache_clear()
    told = tensor_format.parse("(Transposed) Transposed format", "Half")
    assert (told.dtype, told.layout) == ("fp16", "transposed")


def test_a_type_that_stands_beside_the_format() -> None:
    told = tensor_format.parse("(Linear) Row major linear format", "Half")
    assert (told.dtype, told.layout) == ("fp16", "CHW")


@given(st.text(alphabet="PWN({}[]) +|,.:ab%0ForeignNode_ReformattingCopyNode for Input Tensor 0 to ", max_size=120))
def test_any_text_is_read_and_kept(text: str) -> None:
    assert layer_name.parse(text).raw == text.strip()
    assert tensor_format.parse(text).raw == text.strip()


def test_deep_nesting_costs_little_and_long_names_stay_names() -> None:
    deep = "PWN(" * 300 + "a" + ")" * 300
    assert layer_name.parse(deep).nodes == ("a",)
    assert layer_name.parse("PWN(" * 5_000).nodes == ("PWN(" * 5_000,)
    assert len(layer_name.parse(" + ".join(f"n{i}" for i in range(4_000))).nodes) == 4_000
