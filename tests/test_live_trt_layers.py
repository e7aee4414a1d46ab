"""A model exported by torch and built by TensorRT for RTX: layers of its log lead back to nodes, modules and lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest
from tests.support.engine_cases.case import MODEL

from necropsy.api import Loaded
from necropsy.config import Config
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers

pytest.importorskip("tensorrt_rtx", reason="TensorRT for RTX has no wheel for this platform", exc_type=ImportError)
pytestmark = pytest.mark.xdist_group("live-tensorrt")

SCRIPT: Final = dedent(
    """
    import sys
    import torch
    import tensorrt_rtx as trt
    sys.path.insert(0, sys.argv[1])
    from tagger import Tagger

    class Log(trt.ILogger):
        def __init__(self):
            trt.ILogger.__init__(self)
        def log(self, severity, text):
            print(f"[03/14/2026-09:26:53] [TRT] [{severity.name[0]}] {text}", file=out, flush=True)

    out = open(f"{sys.argv[1]}/build.log", "w")
    path = f"{sys.argv[1]}/tagger.onnx"
    torch.manual_seed(0)
    torch.onnx.export(Tagger().eval(), torch.randn(2, 3, 32, 32), path, input_names=["image"], output_names=["tags"],
                      opset_version=17, dynamo=False)
    log = Log()
    builder = trt.Builder(log)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, log)
    assert parser.parse_from_file(path)
    config = builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    config.num_compute_capabilities = 1
    config.set_compute_capability(trt.ComputeCapability.SM89, 0)
    assert builder.build_serialized_network(network, config) is not None
    out.flush()
    """
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model's source, its ONNX export and the log of its build."""
    folder = tmp_path_factory.mktemp("tagger")
    (folder / "tagger.py").write_text(MODEL.read_text(encoding="utf-8"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return folder


@pytest.fixture(scope="module")
def loaded(built: Path) -> Loaded:
    inputs = [str(built / name) for name in ("build.log", "tagger.onnx")]
    return Loaded(inputs, Config(source=(str(built),)))


def test_layers_are_made_of_the_models_nodes(loaded: Loaded) -> None:
    nodes, layers = loaded.evidence.get(OnnxNodes), loaded.evidence.get(TrtLayers)
    assert len(layers.engines) == 1
    assert layers.engines[0].detailed
    told = {n for row in layers.rows for n in row.nodes}
    assert told
    assert told <= {row.name for row in nodes}
    assert {row.name for row in nodes if row.op in ("Conv", "Gemm")} <= told


def test_the_network_ends_are_found_without_a_list(loaded: Loaded) -> None:
    view = loaded.evidence.get(TrtLayers).engines[0]
    assert {"image", "tags"} <= view.network_tensors


def test_layers_lead_to_the_lines_that_made_them(loaded: Loaded) -> None:
    layers = loaded.evidence.get(TrtLayers)
    places = layers.places(loaded.evidence.get(OnnxNodes), loaded.evidence.get(Sources))
    found: dict[str, str] = {}
    for view in layers.engines:
        for timed in view.layers:
            products = [n for n in timed.layer.nodes if n.endswith(("/Conv", "/Gemm"))]
            if len(products) == 1:
                (place,) = places.of(timed.layer)
                found[products[0]] = place.text
    assert found == {
        "/stem/conv/Conv": "return self.act(self.bn(self.conv(x)))",
        "/body.0/Conv": "y = F.relu(self.body[0](x))",
        "/body.1/Conv": "y = F.relu(self.body[1](y) + x)",
        "/neck/Conv": "y = self.neck(y)",
        "/head/Gemm": "return self.head(y)",
    }
