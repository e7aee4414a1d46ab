"""Engine builds under capture: the job sees its own log and settings, the run folder has the verbose one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import necropsy.capture

BOOTSTRAP = Path(necropsy.capture.__file__).parent / "bootstrap"
BUILD = """
import numpy as np
import tensorrt_rtx as trt

logger = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(logger)
network = builder.create_network(0)
x = network.add_input("x", trt.float32, (1, 8, 16, 16))
weights = trt.Weights(np.ones((8, 8, 3, 3), np.float32))
stem = network.add_convolution_nd(x, 8, (3, 3), weights, trt.Weights(np.zeros(8, np.float32)))
stem.name = "stem"
network.mark_output(network.add_activation(stem.get_output(0), trt.ActivationType.RELU).get_output(0))
config = builder.create_builder_config()
plan = builder.build_serialized_network(network, config)
print(plan is not None, config.profiling_verbosity.name, builder.logger.min_severity)
broken = builder.create_network(0)
print(builder.build_serialized_network(broken, builder.create_builder_config()))
"""
# What of TensorRT's Python API the watch touches: engines that load need a GPU, loggers of the job's own do not.
STUB = """
import enum

__version__ = "10.13.0"
class Severity(enum.IntEnum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4
class ILogger:
    Severity = Severity
    def __init__(self): pass
class Logger(ILogger):
    def __init__(self, least): self.min_severity = least
    def log(self, severity, message): print(f"own: {message}")
class ProfilingVerbosity(enum.IntEnum):
    LAYER_NAMES_ONLY = 0
    NONE = 1
    DETAILED = 2
class LayerInformationFormat(enum.IntEnum):
    ONELINE = 0
    JSON = 1
class Config:
    profiling_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
class Memory:
    nbytes = 100
class Inspector:
    def get_engine_information(self, form): return '{"Layers": ["conv1"], "Bindings": []}'
class Engine:
    name = "net"
    def create_engine_inspector(self): return Inspector()
class Builder:
    def __init__(self, logger): self.logger = logger
    def build_serialized_network(self, network, config):
        if network is None:
            raise RuntimeError("no network")
        self.logger.log(Severity.VERBOSE, f"building with {config.profiling_verbosity.name}")
        self.logger.log(Severity.WARNING, "careful")
        return Memory()
class Runtime:
    def __init__(self, logger): self.logger = logger
    def deserialize_cuda_engine(self, plan): return Engine()
"""
USER = """
import tensorrt as trt

class Mine(trt.ILogger):
    def log(self, severity, message): print(f"mine: {severity.name} {message}")

config = trt.Config()
trt.Builder(trt.Logger(trt.Severity.WARNING)).build_serialized_network("network", config)
trt.Builder(logger=Mine()).build_serialized_network("network", config)
config.profiling_verbosity = trt.ProfilingVerbosity.NONE
trt.Builder(Mine()).build_serialized_network("network", config)
print(config.profiling_verbosity.name)
try:
    trt.Builder(Mine()).build_serialized_network(None, config)
except RuntimeError as error:
    print(error)
trt.Runtime(Mine()).deserialize_cuda_engine(b"")
"""


def run(folder: Path, program: str, *, captured: bool) -> str:
    """What the job prints, both streams."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder)}
    if captured:
        out = folder / "run"
        out.mkdir()
        collect = {"tensorrt": ["tensorrt", "tensorrt_rtx"]}
        env |= {"NECROPSY_CAPTURE": json.dumps({"folder": str(out), "collect": collect})}
        env["PYTHONPATH"] = os.pathsep.join((str(BOOTSTRAP), str(folder)))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=env, check=False, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return re.sub(r"\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\]|0x[0-9a-f]+", "[]", done.stdout)


def test_a_real_build(tmp_path: Path) -> None:
    """TensorRT for RTX builds without a GPU: the same output, and a verbose log that is read as one."""
    assert run(tmp_path, BUILD, captured=True) == run(tmp_path, BUILD, captured=False)
    (log,) = (tmp_path / "run").glob("tensorrt_rtx-*.log")
    text = log.read_text(encoding="utf-8")
    assert "[TRT] [V]" in text
    assert "stem" in text
    (notes,) = (tmp_path / "run").glob("process-*.json")
    whats = [n["what"] for n in json.loads(notes.read_text())["notes"]]
    assert whats.count("built") == 2
    assert "failed" not in whats
    assert not [line for line in text.splitlines() if "deserialize" in line]


def test_settings_loggers_and_layers(tmp_path: Path) -> None:
    (tmp_path / "tensorrt.py").write_text(STUB, encoding="utf-8")
    plain, captured = (run(tmp_path, USER, captured=c) for c in (False, True))
    shown = [line for line in captured.splitlines() if "LAYER_NAMES_ONLY" not in line and "DETAILED" not in line]
    # The stub's own logger prints all that it is given, as its caller is to filter; the job's own decides itself.
    assert shown == [line for line in plain.splitlines() if "LAYER_NAMES_ONLY" not in line]
    assert "mine: VERBOSE building with DETAILED" in captured
    assert "mine: VERBOSE building with NONE" in captured
    assert "no network" in captured
    (log,) = (tmp_path / "run").glob("tensorrt-*.log")
    assert log.read_text(encoding="utf-8").count("building with DETAILED") == 2
    layers = sorted((tmp_path / "run").glob("layers*.json"))
    assert len(layers) == 4  # three plans that were built, and what the job loaded
    assert json.loads(layers[0].read_text())["Layers"] == ["conv1"]
