"""ONNX models: nodes, modules and scales; weights are passed over; hostile files are refused in one line."""

from __future__ import annotations

import builtins
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tests.support.engine_cases.case import MODEL
from tests.support.engine_cases.models import tagger

from necropsy.api import analyze, load


def written(folder: Path, data: bytes, name: str = "model.onnx") -> str:
    (folder / name).write_bytes(data)
    return str(folder / name)


def kinds(path: str) -> list[str]:
    return sorted({i.kind for i in analyze(path).issues})


def made(nodes: list[Any], initializers: list[Any], **more: Any) -> Any:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], **more)


def test_nodes_and_modules(tmp_path: Path) -> None:
    nodes = load(written(tmp_path, tagger(training=False))).onnx_nodes
    assert list(nodes["op"]) == ["Conv", "BatchNormalization", "Relu"]
    assert list(nodes["module"]) == ["stem.conv", "stem.bn", "stem.act"]
    assert nodes["attributes"][1]["training_mode"] == 0


def test_metadata_of_dynamo_exports_tells_lines(tmp_path: Path) -> None:
    nodes = load(written(tmp_path, tagger(training=False, metadata=True))).onnx_nodes
    assert nodes["module"][0] == "stem.conv"
    assert (nodes["file"][0], nodes["line"][0]) == ("/home/trainer/projects/tags/tagger.py", 15)
    assert nodes["text"][0] == "return self.act(self.bn(self.conv(x)))"


def test_a_training_export_is_found_on_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tagger.py").write_text(MODEL.read_text())
    report = analyze(written(tmp_path, tagger(training=True)))
    assert [(f.rule, f.code[0].line) for f in report.findings] == [("FUS011", 15)]


def test_scales_of_quantization(tmp_path: Path) -> None:
    scales = np.array([0.5, 0.0, np.nan, 0.25], np.float32)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "x_Q", axis=1),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], "x_DQ", axis=1),
    ]
    arrays = [numpy_helper.from_array(scales, "s"), numpy_helper.from_array(np.zeros(4, np.int8), "z")]
    rows = load(written(tmp_path, made(nodes, arrays).SerializeToString())).onnx_nodes
    told = rows["quantization"][0]
    assert (told.count, told.bad, told.axis, told.dtype) == (4, 2, 1, "int8")


def test_weights_are_never_in_memory(tmp_path: Path) -> None:
    weights = np.zeros(16 << 20, np.float32)  # 64 MiB
    nodes = [
        helper.make_node("Constant", [], ["big"], "/const", value=numpy_helper.from_array(weights[: 4 << 20], "c")),
        helper.make_node("MatMul", ["x", "w"], ["y"], "/fc/MatMul"),
    ]
    path = written(tmp_path, made(nodes, [numpy_helper.from_array(weights, "w")]).SerializeToString())
    load(path)  # what is imported for the first time is not counted
    tracemalloc.start()
    try:
        evidence = load(path)
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
    assert list(evidence.onnx_nodes["name"]) == ["/const", "/fc/MatMul"]
    assert analyze(path).inputs[0].bytes == Path(path).stat().st_size


def test_external_data_is_not_opened(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.zeros(4, np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    model = made([helper.make_node("MatMul", ["x", "w"], ["y"], "/fc/MatMul")], [tensor])
    assert list(load(written(tmp_path, model.SerializeToString())).onnx_nodes["name"]) == ["/fc/MatMul"]


def test_without_the_reader_one_line_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **more: Any) -> Any:
        if name == "onnx":
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.delitem(sys.modules, "onnx", raising=False)
    report = analyze(written(tmp_path, tagger(training=True)))
    assert [i.kind for i in report.issues] == ["onnx/no-reader"]
    assert "necropsy[tensorrt]" in report.issues[0].meaning


@pytest.mark.parametrize(
    "data",
    [
        b"\x08\x08\x12\x07pytorch",
        b"\x08\x08\x12\x07pytorch:\xff\xff\xff\xff\x7f",
        b"\x08\x08\x12\x07pytorch:\x02\x0a\x7f",
        b"\x08\x08\x12\x07pytorch" + b":\x03\x0a\x01" * 9,
        b"\x08\x08:" + b"\xff" * 20,
        b"\x08\x08\x12\x07pytorch\x0b\x00\x00",
    ],
)
def test_damaged_files_are_one_issue(tmp_path: Path, data: bytes) -> None:
    assert kinds(written(tmp_path, data)) == ["onnx/damaged"]


def test_graphs_within_graphs_end_somewhere(tmp_path: Path) -> None:
    inner = b""
    for _ in range(400):
        attribute = b"\x0a\x01g" + b"\x32" + _length(inner) + inner
        node = b"\x2a" + _length(attribute) + attribute
        inner = b"\x0a" + _length(node) + node
    data = b"\x08\x08\x12\x07pytorch" + b":" + _length(inner) + inner
    analyze(written(tmp_path, data))  # refused by protobuf's own limit, or read as far as it goes


def _length(data: bytes) -> bytes:
    size, out = len(data), bytearray()
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes([*out, size])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject) -> None:
    monkeypatch.setenv("NECROPSY_STRICT", "1")
    monkeypatch.chdir(tmp_path)
    raw = bytearray(tagger(training=True, metadata=True))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=12))
    analyze(written(tmp_path, bytes(raw)))
