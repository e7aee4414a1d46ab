"""Slices change the type of their tensor

What it means
    A slice, or the reformat that TensorRT put in its place, writes another type than it reads.

Why it happens
    What is behind the slice runs in another precision than what is before it, and TensorRT
    put the conversion there.

How to confirm
    In the engine's JSON the layer's origin is SLICE, or its type Slice, and the types of input
    and output differ.

How to fix
    Bring both sides to one precision: quantize what reads the slice as well, or cast before.

Limits
    Needs detailed profiling verbosity; costs need a profile.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/best-practices.html
    - trt-engine-explorer, linter of slices (removed from TensorRT in June 2026)
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._claims import about_layers, by_time, of_engine, time_of, types_of
from necropsy.rules.tensorrt._reformats import changes_type


@rule("TRT005", "slice-changes-type", Severity.WARNING)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources) -> Iterator[Finding]:
    """One finding an engine."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
        found = [
            i
            for i, t in enumerate(view.layers)
            if (t.layer.type == "Slice" or t.layer.reformat_origin.upper() == "SLICE") and changes_type(t.layer)
        ]
        if not found:
            continue
        layer = view.layers[by_time(view, found)[0]].layer
        spent = time_of(view, found)
        more = f" and {len(found) - 1} more slices" if len(found) > 1 else ""
        yield about_layers(
            view,
            places,
            found,
            f"{places.shown(layer)}{more}{of_engine(view)} {'change' if more else 'changes'} the type from "
            f"{types_of(layer.inputs)} to {types_of(layer.outputs)}, a conversion of the whole tensor"
            f"{': ' + spent if spent else ''}.",
            Severity.WARNING,
            fixes=(Fix("Run what reads the slice in the precision of what it slices (or the other way)", "code"),),
        )
