"""Paths of modules to lines of `forward`: one place is a line, several are listed, none says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from necropsy.provenance.files import SourceTree
from necropsy.provenance.module_paths import ModulePath, module_path
from necropsy.provenance.modules import ModelSource

PATHS = {
    "/layer1/layer1.0/conv1/Conv": (("layer1", "0", "conv1"), "Conv", 0, "layer1[0].conv1"),
    "/layer1/0/conv1/Conv_2": (("layer1", "0", "conv1"), "Conv", 2, "layer1[0].conv1"),
    "layer4.1.conv2.weight": (("layer4", "1", "conv2"), "", 0, "layer4[1].conv2"),
    "blocks.0.attn.in_proj_weight": (("blocks", "0", "attn"), "", 0, "blocks[0].attn"),
    "fc.weight_DequantizeLinear": (("fc",), "", 0, "fc"),
    "/Relu_1": ((), "Relu", 1, ""),
    "/conv1/Conv_output_0": (("conv1",), "Conv", 0, "conv1"),
    "/conv1/Conv_output_0_QuantizeLinear": (("conv1",), "Conv", 0, "conv1"),
    "/encoder/layers/layers.3/self_attn/MatMul_1_output_0": (
        ("encoder", "layers", "3", "self_attn"),
        "MatMul",
        1,
        "encoder.layers[3].self_attn",
    ),
}


@pytest.mark.parametrize("name", PATHS)
def test_a_name_tells_its_module(name: str) -> None:
    path = module_path(name)
    assert path is not None
    assert (path.parts, path.operation, path.number, path.shown) == PATHS[name]


@pytest.mark.parametrize(
    "name", ["Conv_22", "onnx::Conv_61", "node_conv2d_3", "", "/", "a/b/Conv2D", "weights", "x.y z"]
)
def test_other_names_tell_none(name: str) -> None:
    assert module_path(name) is None


MODEL = """
import torch, torch.nn as nn, torch.nn.functional as F
from collections import OrderedDict
import torchvision


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3)
        self.conv2 = nn.Conv2d(c, c, 3)

    def forward(self, x):
        y = F.relu(self.conv1(x))
        y = self.conv2(y) + x
        return F.relu(y)


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)


class Net(Base):
    def __init__(self, n):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
        self.named = nn.Sequential(OrderedDict([("conv", nn.Conv2d(8, 8, 1)), ("block", Block(8))]))
        self.stages = nn.ModuleList([Block(8) for _ in range(n)])
        self.layers = self._make(Block, n)
        self.backbone = torchvision.models.resnet18()
        self.heads = nn.ModuleDict({"a": nn.Linear(8, 2), "b": nn.Linear(8, 3)})
        self.shared = nn.Linear(8, 8)
        self.grown = nn.ModuleList()
        for _ in range(n):
            self.grown.append(Block(8))
        self.parsed, self.saved = parse(n)
        self.unused = nn.Linear(8, 8)

    def _make(self, block, n):
        layers = []
        for _ in range(n):
            layers.append(block(8))
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.stem(x)
        x = self.named(x)
        for stage in self.stages:
            x = stage(x)
        x = self.layers(x)
        x = self.backbone(x)
        x = self.norm(x)
        for grown in self.grown:
            x = grown(x)
        for m in self.parsed:
            x = m(x)
        x = self.shared(x)
        x = x * 2
        x = self.shared(x) * 3
        return self.finish(x)

    def finish(self, x):
        return self.heads["a"](x), self.heads["b"](x)
"""
EVERY = [
    "/stem/stem.0/Conv", "/named/conv/Conv", "/named/block/conv1/Conv", "/stages.0/conv1/Conv",
    "/layers/layers.0/conv1/Conv", "/backbone/conv1/Conv", "/heads.a/MatMul", "/shared/MatMul", "/shared_1/MatMul",
    "/norm/LayerNormalization", "/grown.1/conv1/Conv", "/parsed.3/cv1/conv/Conv",
]  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> ModelSource:
    (tmp_path / "net.py").write_text(MODEL)
    paths = [module_path(n) for n in [*EVERY, "/Mul", "/Mul_1"]]
    return ModelSource(SourceTree([str(tmp_path)]), [p for p in paths if p is not None])


def lines(model: ModelSource, name: str) -> list[tuple[str, str]]:
    path = module_path(name)
    assert path is not None
    return [(p.text, p.exactness) for p in model.places(path)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("/stem/stem.0/Conv", "x = self.stem(x)"),
        ("/named/conv/Conv", "x = self.named(x)"),
        ("/named/block/conv1/Conv", "y = F.relu(self.conv1(x))"),
        ("/stages.0/conv1/Conv", "y = F.relu(self.conv1(x))"),
        ("/layers/layers.0/conv2/Conv", "y = self.conv2(y) + x"),
        ("/layers/layers.0/Add", "y = self.conv2(y) + x"),
        ("/layers/layers.0/Relu", "y = F.relu(self.conv1(x))"),  # one of two: see below
        ("/backbone/layer1/layer1.0/conv1/Conv", "x = self.backbone(x)"),
        ("/heads.a/MatMul", 'return self.heads["a"](x), self.heads["b"](x)'),
        ("/norm/LayerNormalization", "x = self.norm(x)"),
        ("/shared_1/MatMul", "x = self.shared(x) * 3"),
        ("/shared/MatMul", "x = self.shared(x)"),
        ("/grown.1/conv2/Conv", "y = self.conv2(y) + x"),
        ("/parsed.7/cv2/act/Sigmoid", "x = m(x)"),
        ("/Mul", "x = x * 2"),
        ("/Mul_1", "x = self.shared(x) * 3"),
    ],
)
def test_the_line_that_calls_it(model: ModelSource, name: str, text: str) -> None:
    found = lines(model, name)
    if name.endswith(
        "layers.0/Relu"
    ):  # two calls of relu, and the graph told of none: both are listed, none is claimed
        assert [e for _, e in found] == ["function"] * 3
        assert {t for t, _ in found[1:]} == {"y = F.relu(self.conv1(x))", "return F.relu(y)"}
        return
    assert found == [(text, "line")]


@pytest.mark.parametrize("name", ["/unused/MatMul", "/absent/Conv", "/Constant"])
def test_no_line_where_nothing_calls_it(model: ModelSource, name: str) -> None:
    assert lines(model, name) == []


def test_another_models_class_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(
        "class Other(Module):\n    def __init__(self):\n        self.conv1 = nn.Linear(3, 3)\n"
        "    def forward(self, x):\n        return self.conv1(x)\n"
    )
    path = ModulePath(("conv1",), "Conv")
    assert ModelSource(SourceTree([str(tmp_path)]), [path]).places(path) == ()


def test_two_models_that_fit_name_no_line(tmp_path: Path) -> None:
    text = "class {0}(Module):\n    def __init__(self):\n        self.conv1 = nn.Conv2d(3, 3, 1)\n{1}"
    forward = "    def forward(self, x):\n        return self.conv1(x)\n"
    (tmp_path / "a.py").write_text(text.format("A", forward))
    (tmp_path / "b.py").write_text(text.format("B", "\n" + forward))
    path = ModulePath(("conv1",), "Conv")
    assert ModelSource(SourceTree([str(tmp_path)]), [path]).places(path) == ()


def test_a_copy_of_the_file_changes_nothing(tmp_path: Path) -> None:
    for folder in ("src", "old"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.py").write_text(MODEL)
    known = [p for n in EVERY if (p := module_path(n)) is not None]
    assert lines(ModelSource(SourceTree([str(tmp_path)]), known), "/stem/stem.0/Conv") == [("x = self.stem(x)", "line")]


@pytest.mark.parametrize("text", ["class A(:", "\x00", "class A:\n" + "    " * 90 + "x", "(" * 500, "self. forward"])
def test_any_text_is_no_trouble(tmp_path: Path, text: str) -> None:
    (tmp_path / "net.py").write_text(f"{text}\n# self.conv1 forward")
    path = ModulePath(("conv1",), "Conv")
    assert ModelSource(SourceTree([str(tmp_path)]), [path]).places(path) == ()
