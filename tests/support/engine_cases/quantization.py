"""Cases of the rules about quantization: gaps, pairs of engines, calibration caches."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from tests.support.engine_cases.build import Layer, T, conv, engine, profile, reformat
from tests.support.engine_cases.case import IO, EngineCase, fires, silent, timed
from tests.support.engine_cases.nets import IMAGE, LOGITS, quantized


def pooling() -> Iterator[EngineCase]:
    """QNT001: before a pooling."""
    gap, closed = quantized(gap=True), quantized(gap=False)
    says = (
        "/body/body\\.1/Conv writes FP32",
        "the input of /pool/GlobalAveragePool is not quantized",
        "0.021 ms a run",
    )
    yield EngineCase(
        "QNT001/fires-pooling",
        timed(gap),
        fires("QNT001", "warning", *says, place="tagger.py:30", exactness="line"),
        "no Q/DQ before the pooling",
        source=True,
    )
    pair = {
        "open/layers.json": engine(gap, IO), "open/profile.json": profile(gap),
        "closed/layers.json": engine(closed, IO), "closed/profile.json": profile(closed),
    }  # fmt: skip
    yield EngineCase(
        "QNT001/fires-two-builds",
        pair,
        fires(
            "QNT001",
            "warning",
            "closed is the same model without it",
            "0.069 ms less",
            "1 root" if False else "of open",
        ),
        "the same model with and without the gap: 0.069 ms is what the layers of the gap take more",
    )


def sums_and_pairs() -> Iterator[EngineCase]:
    """QNT001 at a residual sum, QNT002."""
    closed = quantized(gap=False)
    a = T("a", "int8", (8, 64, 56, 56), "CHW32")
    half = [T(n, "fp16", (8, 64, 56, 56), "HWC8") for n in ("s0", "s1")]
    b = T("b", "int8", (8, 64, 56, 56), "CHW32")
    residual = [
        reformat("image_QuantizeLinear", IMAGE, a, 0.02, "QDQ"),
        conv("c0.weight + c0.weight_QuantizeLinear + /c0/Conv", [a], half[0], 0.05),
        reformat("/c0/Conv_output_0_QuantizeLinear", half[0], b, 0.01, "QDQ"),
        conv("c1.weight + c1.weight_QuantizeLinear + /c1/Conv + /Add", [b, half[0]], half[1], 0.05),
        reformat("/Add_output_0_QuantizeLinear", half[1], T("e", "int8", (8, 64, 56, 56), "CHW32"), 0.01, "QDQ"),
        conv(
            "head.weight + head.weight_QuantizeLinear + /head/Conv",
            [T("e", "int8", (8, 64, 56, 56), "CHW32")],
            LOGITS,
            0.05,
        ),
    ]
    yield EngineCase(
        "QNT001/fires-residual",
        timed(residual),
        fires("QNT001", "warning", "2 quantized layers", "the residual input of /Add", "both inputs with one scale"),
        "a residual sum of which one branch is not quantized",
    )
    yield EngineCase(
        "QNT001/silent-closed", timed(closed), silent("QNT001"), "the output is FP32, as the network gives it out"
    )
    f = [T(n, "fp16", (8, 64, 56, 56), "HWC8") for n in ("f0", "f1", "f2")]
    q = T("q", "int8", (8, 64, 56, 56), "CHW32")
    lone = [
        conv("/c0/Conv", [T("image", "fp16", (8, 8, 56, 56), "HWC8")], f[0], 0.05),
        reformat("/c0/Conv_output_0_QuantizeLinear", f[0], q, 0.02, "QDQ"),
        reformat("/c0/Conv_output_0_DequantizeLinear", q, f[1], 0.02, "QDQ"),
        conv("/c1/Conv", [f[1]], f[2], 0.05),
    ]
    yield EngineCase(
        "QNT002/fires-pair-between-floats",
        timed(lone),
        fires("QNT002", "warning", "2 layers only quantize or dequantize", "0.040 ms a run, 29%"),
        "a Q/DQ pair between two convolutions in FP16",
    )
    yield EngineCase(
        "QNT002/silent-border", timed(closed), silent("QNT002"), "the only Q node quantizes the network's input"
    )


def gain() -> Iterator[EngineCase]:
    """QNT007."""
    gap = quantized(gap=True)
    fp16 = _as_half(gap)
    for scale, name in ((0.5, "fires-no-gain"), (1.6, "silent-faster")):
        slow = [Layer(t.name, t.type, t.ins, t.outs, t.ms * scale, t.more) for t in fp16]
        files = {
            "int8/layers.json": engine(gap, IO), "int8/profile.json": profile(gap),
            "fp16/layers.json": engine(slow, IO), "fp16/profile.json": profile(slow),
        }  # fmt: skip
        yield EngineCase(
            f"QNT007/{name}",
            files,
            fires(
                "QNT007",
                "warning",
                "int8 is quantized and only",
                "times slower than fp16",
                "converting between types takes",
            )
            if scale < 1
            else {"rule": "QNT007", "worst": "warning"},
            f"the network in FP16, {'faster' if scale < 1 else 'slower'} than in INT8",
        )


def _as_half(layers: list[Layer]) -> list[Layer]:
    """The products of a quantized engine in FP16."""
    found = []
    for t in layers:
        if t.type != "CaskConvolution":
            continue
        ins = [T(i.name, "fp16", i.dims, "HWC8") for i in t.ins]
        name = " + ".join(n for n in t.name.split(" + ") if "weight" not in n)
        found.append(conv(name, ins, T(t.outs[0].name, "fp16", t.outs[0].dims, "HWC8"), t.ms))
    return found


CACHE = (
    ("image", 0.02), ("(Unnamed Layer* 0) [Constant]_output", 0.0), ("/stem/conv/Conv_output_0", 0.05),
    ("/stem/act/Relu_output_0", 0.049), ("/body/body.0/Conv_output_0", 0.03), ("/Relu_output_0", 0.031),
    ("/neck/Conv_output_0", 0.02), ("logits", 0.01),
)  # fmt: skip


def cache(
    factor: Callable[[int, str], float] = lambda i, n: 1.0, head: str = "TRT-8601-EntropyCalibration2", **fixed: float
) -> str:
    """A calibration cache: the scales above, each times a factor, some replaced."""
    lines = [head]
    for i, (name, scale) in enumerate(CACHE):
        value = fixed.get(name.strip("/").split("/")[0].replace("_output_0", ""), scale * factor(i, name))
        lines.append(f"{name}: {struct.unpack('>I', struct.pack('>f', value))[0]:x}")
    return "\n".join(lines) + "\n"


def caches() -> Iterator[EngineCase]:
    """QNT009, QNT010, QNT011."""
    yield EngineCase(
        "QNT009/fires-zero",
        {"calib.cache": cache(neck=0.0)},
        fires("QNT009", "warning", "no usable scale for /neck/Conv_output_0", "zero"),
        "a tensor that was zero in all of the calibration data",
    )
    yield EngineCase(
        "QNT009/fires-nan",
        {"calib.cache": cache(neck=float("nan"))},
        fires("QNT009", "error", "/neck/Conv_output_0", "not a number"),
        "a batch with NaN",
    )
    yield EngineCase(
        "QNT009/silent-constants", {"calib.cache": cache()}, silent("QNT009"), "only a constant has no scale"
    )
    shifted = {"old.cache": cache(), "new.cache": cache(lambda i, n: 1.5)}
    yield EngineCase(
        "QNT010/fires-shifted-input",
        shifted,
        fires("QNT010", "warning", "7 of 7 tensors", "already the input image", "preprocess"),
        "the input's range grew by half",
    )
    inner = cache(lambda i, n: 1.4 if "body" in n or n == "/Relu_output_0" else 1.0)
    yield EngineCase(
        "QNT010/fires-inside",
        {"old.cache": cache(), "new.cache": inner},
        fires("QNT010", "warning", "2 of 7 tensors", "first of all at /body/body.0/Conv_output_0"),
        "two tensors inside the network differ, the input does not",
    )
    near = {"old.cache": cache(), "new.cache": cache(lambda i, n: 1.1)}
    yield EngineCase("QNT010/silent-near", near, silent("QNT010"), "scales that differ by a tenth")
    minmax = "TRT-8601-MinMaxCalibration"
    tails = {"entropy.cache": cache(), "minmax.cache": cache(lambda i, n: 2.0 if "neck" in n else 1.02, minmax)}
    yield EngineCase(
        "QNT011/fires-one-tail",
        tails,
        fires("QNT011", "note", "clips 1 of 7 tensors", "/neck/Conv_output_0", "50%"),
        "entropy calibration leaves half of one tensor's range out",
    )
    alike = {"entropy.cache": cache(), "minmax.cache": cache(lambda i, n: 1.05, minmax)}
    yield EngineCase("QNT011/silent-alike", alike, silent("QNT011"), "two calibrators that agree")
