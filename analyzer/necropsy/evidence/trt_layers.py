"""Layers of TensorRT engines: what was fused into each, its types, formats, kernel and time."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from necropsy_parsers.records import Anchor, Record
from necropsy_parsers.tensorrt.measured import EngineProfile, EngineSummary
from necropsy_parsers.tensorrt.records import Engine, EngineLayer

from necropsy.evidence import Table
from necropsy.evidence._trt_engines import EngineView, engines, layouts, precision
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.provenance.engine_layers import LayerPlaces


class LayerRow(Struct, frozen=True):
    """A layer; see `TrtLayers.columns`."""

    engine: str
    index: int
    name: str
    nodes: list[str]
    type: str
    precision_in: str
    precision_out: str
    formats_in: list[str]
    formats_out: list[str]
    dims_out: list[list[int]]
    tactic: str
    tactic_value: str
    stream: int | None
    ms: float | None
    share: float | None
    anchor: Anchor


class TrtLayers(Table[LayerRow]):
    """One row a layer; `engines` has them by engine, with who reads from whom."""

    name = "trt_layers"
    row = LayerRow
    accepts = (EngineLayer, Engine, EngineProfile, EngineSummary)
    formats = ("trt_layers", "trt_profile", "log")
    supply = "trtexec --profilingVerbosity=detailed --exportLayerInfo=layers.json, or a build's log with --verbose"
    columns: ClassVar[dict[str, str]] = {
        "engine": "the input that tells it, with #2 and so on for further engines of one input",
        "index": "place in the engine, from 0",
        "name": "TensorRT's name of the layer",
        "nodes": "ONNX or network nodes in it: from its metadata, else from its name",
        "type": "TensorRT's type (CaskConvolution, Reformat, gemm, kgen), empty where only names are told",
        "precision_in": "types of its inputs (fp32, fp16, int8, ...), joined by +",
        "precision_out": "types of its outputs",
        "formats_in": "type and layout of each input, as nvinfer1::TensorFormat names it; int8:32 of vectors of 32",
        "formats_out": "the same of each output",
        "dims_out": "dimensions of each output, -1 where dynamic",
        "tactic": "the kernel's name, empty where no name is told (lines of a log up to 8.x)",
        "tactic_value": "the kernel's number as printed",
        "stream": "auxiliary stream, None where untold",
        "ms": "milliseconds a run, from --exportProfile, None where not measured",
        "share": "share of the time of all layers",
        "anchor": "where it stands",
    }

    def __init__(self) -> None:
        super().__init__()
        self.engines: list[EngineView] = []
        self._places: LayerPlaces | None = None
        self._kept: dict[type[Record], list[Any]] = {t: [] for t in self.accepts}

    def add(self, record: Any) -> None:
        """Keep a layer, an engine, or what was measured of one."""
        self._kept[type(record)].append(record)

    def finish(self) -> None:
        """Put together what belongs to one engine."""
        self.engines = engines(*(self._kept[t] for t in self.accepts))
        self.rows = [_row(view, number) for view in self.engines for number in range(len(view.layers))]

    def places(self, nodes: OnnxNodes | None, sources: Sources) -> LayerPlaces:
        """What takes layers to lines, made once for all rules."""
        if self._places is None:
            by_name = nodes.by_name if nodes is not None else {}
            self._places = LayerPlaces((t.layer for v in self.engines for t in v.layers), by_name, sources.tree)
        return self._places

    def covered(self, formats: frozenset[str]) -> bool:
        """Whether an engine's layers were among the inputs; most logs hold none."""
        return bool({"trt_layers", "trt_profile"} & formats) or bool(self.engines)


def _row(view: EngineView, number: int) -> LayerRow:
    timed = view.layers[number]
    layer = timed.layer
    return LayerRow(
        layer.engine,
        layer.index,
        layer.name,
        list(layer.nodes),
        layer.type,
        precision(layer.inputs),
        precision(layer.outputs),
        layouts(layer.inputs),
        layouts(layer.outputs),
        [list(t.dims) for t in layer.outputs],
        layer.tactic,
        layer.tactic_value,
        layer.stream,
        timed.ms,
        view.share([number]),
        layer.anchor,
    )
