"""Names that Torch-TensorRT gives to layers, to modules and lines of `forward`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from necropsy_parsers.tensorrt.records import nodes_of

from necropsy.provenance.files import SourceTree
from necropsy.provenance.module_paths import module_path
from necropsy.provenance.modules import ModelSource

# torch.export and torch.compile, that of other releases, and Torch-TensorRT's own form up to 2.4.
PATHS = {
    "layer1.0.conv1/convolution_2": ("layer1[0].conv1", "aten.convolution", 2),
    "L['self'].layer1.0.conv1/convolution_2": ("layer1[0].conv1", "aten.convolution", 2),
    "L['model'].layer1[0].conv1/convolution": ("layer1[0].conv1", "aten.convolution", 0),
    "L['self']._modules['layer1']._modules['0']._modules['conv1']/convolution_2": (
        "layer1[0].conv1",
        "aten.convolution",
        2,
    ),
    "layer1.0.conv1/convolution_2_bias": ("layer1[0].conv1", "aten.convolution", 2),
    "layer1.0.bn/_native_batch_norm_legit_no_training_1": (
        "layer1[0].bn",
        "aten._native_batch_norm_legit_no_training",
        1,
    ),
    "up/upsample_nearest2d_3": ("up", "aten.upsample_nearest2d", 3),
    "act@1/relu_1": ("act_1", "aten.relu", 1),
    "/gelu": ("", "aten.gelu", 0),
    "/features/0/convolution": ("features[0]", "aten.convolution", 0),
    "/layer1_0_conv1/convolution_2": ("layer1_0_conv1", "aten.convolution", 2),
}


@pytest.mark.parametrize("name", PATHS)
def test_a_name_tells_its_module(name: str) -> None:
    (node,) = nodes_of(f"[CONVOLUTION]-[aten_ops.convolution.default]-[{name}]")
    path = module_path(node)
    assert path is not None
    assert (path.shown, path.operation, path.number) == PATHS[name]


@pytest.mark.parametrize(
    "name", ["gelu_1", "resnet/block/add", "resnet/block/Conv2D", "0/relu", "a/../relu", "a b/relu"]
)
def test_other_names_tell_none(name: str) -> None:
    assert module_path(name) is None


def test_long_names_take_no_time() -> None:
    begun = time.process_time()
    for piece in ("a", "a.", "/a", "[0]", "['a']", "a@1.", "L['a']"):
        assert module_path(piece * 20_000 + "!") is None
    assert time.process_time() - begun < 2


MODEL = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.bn = nn.BatchNorm2d(width)

    def forward(self, x):
        y = F.relu(self.bn(self.conv1(x)))
        y = F.gelu(y) * 2
        return F.relu(x + y)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(Block(8), Block(8))
        self.up = nn.ConvTranspose2d(8, 8, 2)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = self.layer1(x)
        x = self.up(x).mean((2, 3))
        return torch.softmax(self.fc(x), -1)
"""
NODES = (
    "layer1.0.conv1/convolution", "layer1.0.bn/_native_batch_norm_legit_no_training", "layer1.0/relu",
    "layer1.0/mul", "layer1.0/erf", "layer1.0/mul_1", "layer1.0/mul_2", "layer1.0/add_1", "layer1.0/relu_1",
    "layer1.1.conv1/convolution_1", "layer1.1/relu_2", "layer1.1/relu_3", "layer1.1/add_3",
    "up/convolution_2", "fc/permute", "fc/addmm",
)  # fmt: skip


@pytest.mark.parametrize("root", ["", "L['self']."])
@pytest.mark.parametrize(
    ("node", "text"),
    [
        ("layer1.0.conv1/convolution", "y = F.relu(self.bn(self.conv1(x)))"),
        ("layer1.1.conv1/convolution_1", "y = F.relu(self.bn(self.conv1(x)))"),
        ("layer1.0.bn/_native_batch_norm_legit_no_training", "y = F.relu(self.bn(self.conv1(x)))"),
        ("layer1.0/relu", "y = F.relu(self.bn(self.conv1(x)))"),
        ("layer1.0/relu_1", "return F.relu(x + y)"),
        ("layer1.1/relu_3", "return F.relu(x + y)"),  # numbered in the whole graph: the second of its block
        ("layer1.1/add_3", "return F.relu(x + y)"),
        ("up/convolution_2", "x = self.up(x).mean((2, 3))"),
        ("fc/addmm", "return torch.softmax(self.fc(x), -1)"),
        ("layer1.0/mul_2", ""),  # one of three, two of which the decomposed gelu does
        ("layer1.0/erf", ""),
    ],
)
def test_a_node_leads_to_its_line(node: str, text: str, root: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL)
    paths = [p for n in NODES if (p := module_path(root + n)) is not None]
    path = module_path(root + node)
    assert path is not None
    places = ModelSource(SourceTree([str(tmp_path)]), paths).places(path)
    assert [(p.text, p.exactness) for p in places] == ([(text, "line")] if text else [])


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ("/layer1_0_conv1/convolution", "y = F.relu(self.bn(self.conv1(x)))"),
        ("/layer1_1_bn/_native_batch_norm_legit_no_training_1", "y = F.relu(self.bn(self.conv1(x)))"),
        ("/layer1/1/relu_3", "return F.relu(x + y)"),
        ("/layer1/0/mul_2", ""),
        ("/up/convolution_2", "x = self.up(x).mean((2, 3))"),
        ("/layer2_0_conv1/convolution", ""),
    ],
)
def test_joined_attributes_are_parted_by_the_classes(node: str, text: str, tmp_path: Path) -> None:
    """`L__self___layer1_0_conv1` became `/layer1_0_conv1`, `L__self___layer1_0` became `/layer1/0`."""
    (tmp_path / "net.py").write_text(MODEL)
    names = [n.rpartition("/") for n in NODES]
    flat = [(p.replace(".", "_") if p.count(".") > 1 else p.replace(".", "/"), n) for p, _, n in names]
    paths = [p for scope, n in flat if (p := module_path(f"/{scope}/{n}")) is not None]
    path = module_path(node)
    assert path is not None
    places = ModelSource(SourceTree([str(tmp_path)]), paths).places(path)
    assert [(p.text, p.exactness) for p in places] == ([(text, "line")] if text else [])
