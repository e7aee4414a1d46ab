"""Names that Torch-TensorRT gives to layers of TorchScript: the printed nodes, to modules and lines."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from necropsy_parsers.grammars import layer_name
from necropsy_parsers.records import Anchor
from necropsy_parsers.tensorrt.records import EngineLayer, nodes_of

from necropsy.provenance.engine_layers import LayerPlaces
from necropsy.provenance.files import SourceTree
from necropsy.provenance.module_paths import script_node

LIBRARY = "/opt/venv/lib/python3.10/site-packages/torch/nn/"
CONV = (
    "%input.1 : Tensor = aten::_convolution(%x, %self.stem.conv.weight, %self.stem.conv.bias, %49, %50),"
    f" scope: __module.stem/__module.stem.conv # {LIBRARY}modules/conv.py:459:0"
)
RELU = f"%23 : Tensor = aten::relu_(%input.1), scope: __module.stem/__module.stem.act # {LIBRARY}functional.py:1471:0"
SCRIPTED = f"%18 : Tensor = aten::conv2d(%x.1, %self.body.0.weight.1, %42) # {LIBRARY}modules/conv.py:459:15"
OWN = "%x.5 : Tensor = aten::add(%result.3, %3, %3) # /home/trainer/projects/net/net.py:12:15"
ROOT = f"%8 : Tensor = aten::flatten(%38, %10, %7) # {LIBRARY}functional.py:7:0"
OLD = "%a.1 : Tensor, %b : Tensor = aten::max_pool2d_with_indices(%x.3, %4), scope: __module.pool"
NODES = {
    CONV: ("stem.conv", "convolution"),
    RELU: ("stem.act", "relu"),
    SCRIPTED: ("body[0]", "convolution"),
    OWN: (None, "add"),
    ROOT: (None, "flatten"),
    OLD: ("pool", "max_pool2d_with_indices"),
}


@pytest.mark.parametrize("name", NODES)
def test_a_node_tells_its_module_and_operation(name: str) -> None:
    node = script_node(name)
    assert node is not None
    assert (node.path.shown if node.path is not None else None, node.operation) == NODES[name]


@pytest.mark.parametrize(
    "name",
    [f"{CONV} + {RELU}", f"PWN(PWN({CONV}), {RELU})", f"{CONV} + PWN({RELU})", f"{{ForeignNode[{CONV}...{RELU}]}}"],
)
def test_nodes_in_fused_names_stay_whole(name: str) -> None:
    told = layer_name.parse(name)
    assert told.understood
    assert told.nodes == (CONV, RELU)


def test_other_names_are_no_nodes_and_long_ones_take_no_time() -> None:
    assert [script_node(n) for n in ("%x", "Conv_0", "%a = b", "aten::relu(%x)", "x % y : z = aten::relu(%x)")] == [
        None
    ] * 5
    begun = time.process_time()
    for piece in ("%a, ", "% = aten::a(", "%a : b = aten::c(%d) # e:1", "scope: a/", "%a = aten::c(%d), scope: x"):
        script_node("%a" + piece * 20_000)
    assert time.process_time() - begun < 2


MODEL = """
import torch.nn as nn
import torch.nn.functional as F


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x):
        x = F.relu(self.conv(x))
        x = F.relu(x - 1)
        return F.gelu(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Stem()

    def forward(self, x):
        return self.stem(x)
"""


def test_lines_are_those_of_the_users_code(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL, encoding="utf-8")
    names = {
        "weight": CONV.replace("__module.stem/__module.stem.conv", "__module.stem"),
        "module": CONV,
        "once": f"%3 : Tensor = aten::gelu(%2), scope: __module.stem # {LIBRARY}functional.py:9:0",
        "twice": f"%4 : Tensor = aten::relu(%2), scope: __module.stem # {LIBRARY}functional.py:9:0",
        "told": "%x.5 : Tensor = aten::sub(%2, %3, %3), scope: __module.stem # /home/trainer/net.py:13:0",
        "root": ROOT,
    }
    anchor = Anchor("layers.json", 0, 1, 1)
    layers = {
        key: EngineLayer(anchor, "layers.json", n, name, nodes=nodes_of(name))
        for n, (key, name) in enumerate(names.items())
    }
    tree = SourceTree([str(tmp_path)], [], None)
    places = LayerPlaces(layers.values(), {}, tree)
    lines = {key: [(p.line, p.exactness) for p in places.of(layer)] for key, layer in layers.items()}
    assert lines["module"] == [(12, "line")]
    assert lines["once"] == [(14, "line")]
    assert lines["told"] == [(13, "line")]
    assert lines["twice"] == lines["root"] == []
    assert places.shown(layers["module"]) == "stem.conv (convolution)"
    assert places.shown(layers["root"]) == "flatten"
