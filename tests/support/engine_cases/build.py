"""Layers, engines and profiles in the inspector's JSON of TensorRT 8 to 10 and of 11."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

OLD = {
    ("fp32", "CHW"): "Row major linear FP32",
    ("fp16", "CHW"): "Row major linear FP16 format",
    ("int8", "CHW"): "Row major Int8 format",
    ("int32", "CHW"): "Row major linear INT32",
    ("fp16", "HWC8"): "Channel major FP16 format where channel % 8 == 0",
    ("fp16", "HWC16"): "Channel major FP16 format where channel % 16 == 0",
    ("int8", "CHW32"): "Thirty-two wide channel vectorized row major Int8 format",
    ("int8", "CHW4"): "Four wide channel vectorized row major Int8 format",
}
NEW = {"fp32": "Float", "fp16": "Half", "int8": "Int8", "bf16": "BFloat16", "int32": "Int32", "fp8": "FP8"}


@dataclass(frozen=True)
class T:
    """A tensor: name, type, dimensions, layout."""

    name: str
    dtype: str
    dims: tuple[int, ...] = (8, 64, 56, 56)
    layout: str = "CHW"

    def old(self) -> dict[str, Any]:
        form = OLD[self.dtype, self.layout]
        return {"Name": self.name, "Location": "Device", "Dimensions": list(self.dims), "Format/Datatype": form}

    def new(self) -> dict[str, Any]:
        strides = [1] * len(self.dims)
        for i in range(len(self.dims) - 2, -1, -1):
            strides[i] = strides[i + 1] * self.dims[i + 1]
        return {
            "Name": self.name,
            "Dimensions": list(self.dims),
            "Strides": strides,
            "StrideOrder": list(range(len(self.dims) - 1, -1, -1)),
            "Datatype": NEW[self.dtype],
            "Format": "(Linear) Row major linear format",
        }


@dataclass(frozen=True)
class Layer:
    """A layer and its time in milliseconds."""

    name: str
    type: str
    ins: Sequence[T]
    outs: Sequence[T]
    ms: float = 0.0
    more: dict[str, Any] = field(default_factory=dict)

    def told(self, *, new: bool = False) -> dict[str, Any]:
        tensors = [[t.new() if new else t.old() for t in side] for side in (self.ins, self.outs)]
        return {"Name": self.name, "LayerType": self.type, "Inputs": tensors[0], "Outputs": tensors[1], **self.more}


HMMA = (
    "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize128x64x64_stage4_warpsize2x2x1_g1"
    "_tensor16x8x16"
)
IMMA = (
    "sm80_xmma_fprop_implicit_gemm_interleaved_i8i8_i8i32_f32_nchw_vect_c_32kcrs_vect_c_32_nchw_vect_c_32"
    "_tilesize128x64x64_stage3_warpsize2x2x1_g1_tensor16x8x32"
)


def conv(
    name: str, ins: Sequence[T], out: T, ms: float = 0.02, tactic: str = "", groups: int = 1, **more: Any
) -> Layer:
    """A convolution; its kernel uses Tensor Cores if nothing else is said."""
    dtype = ins[0].dtype
    tactic = tactic or (
        IMMA if dtype == "int8" else HMMA if dtype == "fp16" else "ampere_scudnn_128x64_relu_medium_nn_v1"
    )
    weights = {
        "Type": {"int8": "Int8", "fp16": "Half", "fp32": "Float"}[dtype],
        "Count": out.dims[1] * ins[0].dims[1] * 9,
    }
    told = {
        "ParameterType": "Convolution",
        "Kernel": [3, 3],
        "Stride": [1, 1],
        "OutMaps": out.dims[1],
        "Groups": groups,
        "Weights": weights,
        "HasBias": 1,
        "TacticName": tactic,
        "TacticValue": "0x7e6b2a1c90f4d358",
        **more,
    }
    return Layer(name, "CaskConvolution", ins, [out], ms, told)


def reformat(name: str, source: T, target: T, ms: float = 0.01, origin: str = "REFORMAT") -> Layer:
    """A change of type or layout."""
    told = {"ParameterType": "Reformat", "Origin": origin, "TacticValue": "0x00000000000003e8"}
    return Layer(name, "Reformat", [source], [target], ms, told)


def other(name: str, type: str, ins: Sequence[T], outs: Sequence[T], ms: float = 0.01, **more: Any) -> Layer:
    """Any other layer."""
    return Layer(name, type, ins, outs, ms, {"ParameterType": type, "TacticValue": "0x0000000000000000", **more})


def engine(layers: Sequence[Layer], bindings: Sequence[str]) -> str:
    """The inspector's JSON of TensorRT 8 to 10."""
    return json.dumps({"Layers": [x.told() for x in layers], "Bindings": list(bindings)}, indent=1) + "\n"


def engine11(layers: Sequence[Layer], inputs: Sequence[T], outputs: Sequence[T]) -> str:
    """The inspector's JSON of TensorRT 11."""
    io = [
        {
            "Name": t.name,
            "IOMode": mode,
            "DataType": NEW[t.dtype],
            "Dimensions": list(t.dims),
            "Location": "Device",
            "IsShapeInferenceIO": False,
            "ProfileInfo": [{"Format": f"Row major linear {t.dtype.upper()} format (kLINEAR)"}],
        }
        for mode, tensors in (("Input", inputs), ("Output", outputs))
        for t in tensors
    ]
    told = {
        "Layers": [x.told(new=True) for x in layers],
        "I/O Tensors": io,
        "Engine Metadata": {"Multi-Device": "Disabled"},
    }
    return json.dumps(told, indent=1) + "\n"


def profile(layers: Sequence[Layer], runs: int = 100) -> str:
    """`trtexec --exportProfile` of the layers."""
    total = sum(x.ms for x in layers) or 1.0
    rows = [f'{{ "count" : {runs} }}']
    for x in layers:
        rows.append(
            f'{{ "name" : {json.dumps(x.name)}, "timeMs" : {x.ms * runs:g}, "averageMs" : {x.ms:g}, '
            f'"medianMs" : {x.ms:g}, "percentage" : {100 * x.ms / total:g} }}'
        )
    return "[\n  " + "\n, ".join(rows) + "\n]\n"


def summary(mean: float) -> str:
    """trt-engine-explorer's summary of a run of that many milliseconds."""
    times = [mean * 0.98, mean * 1.1, mean, mean * 0.99, mean * 1.05]
    return json.dumps(
        {
            "performance_summary": {"Throughput": round(1000 / mean, 2), "Latency": times, "GPU Compute Time": times},
            "inference_options": {"Batch": "Explicit", "CUDA Graph": "Disabled"},
            "device_information": {"Selected Device": "NVIDIA A10", "Compute Capability": 8.6},
        }
    )
