"""TensorRT for RTX builds small networks here, with no GPU, and its own verbose log is read.

It builds ahead of time for a compute capability that is set; what its builder and parser say is what TensorRT 10 and 11
say.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

import necropsy
from necropsy.api import analyze

pytest.importorskip("tensorrt_rtx", reason="TensorRT for RTX has no wheel for this platform", exc_type=ImportError)
pytestmark = pytest.mark.xdist_group("live-tensorrt")

SCRIPT: Final = dedent(
    """
    import sys
    import numpy as np
    import tensorrt_rtx as trt
    from onnx import TensorProto, helper, numpy_helper

    class Log(trt.ILogger):
        def __init__(self, file):
            trt.ILogger.__init__(self)
            self.file = file
        def log(self, severity, text):
            print(f"[03/14/2026-09:26:53] [TRT] [{severity.name[0]}] {text}", file=self.file, flush=True)

    def model(nodes, shape, **attributes):
        weights = {"w": (4, 3, 3, 3), "scale": (4,), "bias": (4,), "mean": (4,), "var": (4,)}
        used = {i for n in nodes for i in n.input}
        made = [numpy_helper.from_array(np.ones(s, "f"), k) for k, s in weights.items() if k in used]
        graph = helper.make_graph(
            nodes, "net", [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], made)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

    conv = helper.make_node("Conv", ["image", "w"], ["c"], name="/stem/conv/Conv", pads=[1, 1, 1, 1])
    relu = helper.make_node("Relu", ["c"], ["y"], name="/stem/act/Relu")
    norm = helper.make_node(
        "BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["y", "m", "v"], training_mode=1,
        name="/stem/bn/BatchNormalization")
    gated = helper.make_node("GatedPool", ["c"], ["y"], name="/neck/pool", domain="neck.ops")
    MODELS = {
        "built": model([conv, relu], [2, 3, 16, 16]),
        "dynamic": model([conv, relu], ["n", 3, 16, 16]),
        "training": model([conv, norm], [2, 3, 16, 16]),
        "plugin": model([conv, gated], [2, 3, 16, 16]),
    }
    for name, data in MODELS.items():
        with open(f"{sys.argv[1]}/{name}.log", "w") as file:
            log = Log(file)
            builder = trt.Builder(log)
            network = builder.create_network(0)
            parser = trt.OnnxParser(network, log)
            if parser.parse(data):
                config = builder.create_builder_config()
                config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
                config.num_compute_capabilities = 1
                config.set_compute_capability(trt.ComputeCapability.SM86, 0)
                builder.build_serialized_network(network, config)
            for number in range(parser.num_errors):
                print(parser.get_error(number), file=file)
    """
)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tensorrt")
    (folder / "build.py").write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(folder / "build.py"), str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def findings(path: Path) -> dict[str, str]:
    return {f.rule: f.message for f in analyze([str(path)]).findings if f.rule.startswith("TRT")}


def test_a_build_is_read(logs: Path) -> None:
    evidence = necropsy.load(str(logs / "built.log"))
    build = evidence.trt_builds.iloc[0]
    assert (build.rtx, build.finished, build.opset) == (True, True, 17)
    assert build.seconds > 0
    text = (logs / "built.log").read_text(encoding="utf-8")
    names = re.findall(r"^Name: (.+?), LayerType: (\w+), ", text, re.MULTILINE)
    assert len(names) > 1
    layers = evidence.trt_layers
    assert list(zip(layers["name"], layers["type"], strict=True)) == names
    assert any("/stem/conv/Conv" in nodes for nodes in layers["nodes"])
    peak = re.search(r"Total Activation Memory: (\d+)", text)
    assert peak is not None
    told = evidence.trt_memory.set_index("what")["bytes"]
    assert told["activation"] == int(peak[1])


def test_a_healthy_build_says_nothing_above_a_note(logs: Path) -> None:
    report = analyze([str(logs / "built.log")])
    assert [f.message for f in report.findings if f.severity > 0] == []


def test_dynamic_inputs_need_a_profile(logs: Path) -> None:
    assert "profile" in findings(logs / "dynamic.log")["TRT023"]


def test_batch_norm_in_training_mode(logs: Path) -> None:
    found = findings(logs / "training.log")
    assert "training mode" in found["TRT022"]
    assert "TRT013" not in found


def test_a_plugin_that_is_not_there(logs: Path) -> None:
    found = findings(logs / "plugin.log")
    assert "GatedPool" in found["TRT013"]
    assert "/neck/pool" in found["TRT013"]
