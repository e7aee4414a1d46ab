"""Cases of the rules about fusion, about exports, and about engines that tell little."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.support.engine_cases.build import T, conv, engine11, other, profile
from tests.support.engine_cases.case import IO, EngineCase, fires, silent, timed
from tests.support.engine_cases.models import quantized_tagger, tagger
from tests.support.engine_cases.nets import attention, half_end, half_start


def names() -> Iterator[EngineCase]:
    """TRT037."""
    bare = {"Layers": [x.name for x in half_start()], "Bindings": IO}
    yield EngineCase(
        "TRT037/fires-names",
        {"layers.json": json.dumps(bare) + "\n"},
        fires("TRT037", "note", "names of the 3 layers", "profilingVerbosity=detailed"),
        "an engine built with the default verbosity",
    )
    yield EngineCase("TRT037/silent-detailed", timed(half_start()), silent("TRT037"), "the same engine in detail")


def fusions() -> Iterator[EngineCase]:
    """FUS007, FUS008, FUS011 (engines)."""
    tokens, hidden = [T("tokens", "fp32", (4, 128, 256))], [T("hidden", "fp32", (4, 128, 256))]
    apart, one = attention(fused=False), attention(fused=True)
    yield EngineCase(
        "FUS007/fires-fp32",
        {"layers.json": engine11(apart, tokens, hidden), "profile.json": profile(apart)},
        fires("FUS007", "warning", "separate products and softmax in FP32", "Build in FP16"),
        "an attention in FP32 as TensorRT 11 tells it",
    )
    yield EngineCase(
        "FUS007/silent-mha",
        {"layers.json": engine11(one, tokens, hidden), "profile.json": profile(one)},
        silent("FUS007"),
        "an attention in one kernel",
    )
    start = half_start()
    x = start[-1].outs[0]
    out = T("/scale/Mul_output_0", "fp16", x.dims, "HWC8")
    for count, name in ((1, "fires-one-operation"), (3, "silent-three-operations")):
        told = {
            "NbOperations": count,
            "Operations": [f"auto const var{i} = pwgen::iMul(arg0, literal{i});" for i in range(count)],
        }
        alone = other("PWN(/scale/Mul)", "PointWiseV2", [x], [out], 0.06, **told)
        alone.more["ParameterType"] = "PointWise"
        yield EngineCase(
            f"FUS008/{name}",
            timed([*start, alone, *half_end(out)]),
            fires("FUS008", "warning", "PWN|/scale/Mul", "single pointwise operation")
            if count == 1
            else silent("FUS008"),
            f"a pointwise layer of {count} operation{'s' if count > 1 else ''}",
        )
    pre, post = T("pre", "fp16", x.dims, "HWC8"), T("post", "fp16", x.dims, "HWC8")
    bn = [conv("/body/body.1/Conv", [x], pre, 0.05), other("/bn/BatchNormalization", "Scale", [pre], [post], 0.03)]
    yield EngineCase(
        "FUS010/fires-scale-layer",
        timed([*start, *bn, *half_end(post)]),
        fires("FUS010", "warning", "BatchNorm /bn/BatchNormalization is a layer of its own", "0.030 ms"),
        "a BatchNorm that TensorRT left behind its convolution",
    )


def folded() -> Iterator[EngineCase]:
    """FUS010: nothing to say."""
    x = half_start()[-1].outs[0]
    out = T("post", "fp16", x.dims, "HWC8")
    inside = conv("/body/body.1/Conv + /bn/BatchNormalization", [x], out, 0.05)
    yield EngineCase(
        "FUS010/silent-folded",
        timed([*half_start(), inside, *half_end(out)]),
        silent("FUS010"),
        "a BatchNorm that TensorRT folded into the convolution",
    )


def exports() -> Iterator[EngineCase]:
    """FUS011 (models)."""
    for training, name in ((True, "fires-training-export"), (False, "silent-evaluation-export")):
        yield EngineCase(
            f"FUS011/{name}",
            {"tagger.onnx": tagger(training=training)},
            fires(
                "FUS011",
                "error",
                "training mode",
                "BatchNorm stem.bn",
                "model.eval",
                place="tagger.py:15",
                exactness="line",
            )
            if training
            else silent("FUS011"),
            f"an ONNX model exported in {'training' if training else 'evaluation'} mode",
            source=True,
        )
    for scale, name in ((0.0, "fires-dead-channel"), (0.02, "silent-usable")):
        yield EngineCase(
            f"QNT012/{name}",
            {"tagger.onnx": quantized_tagger(scale)},
            fires("QNT012", "error", "1 of 4 scales", "/stem/conv/Conv_output_0_QuantizeLinear", place="tagger.py:15")
            if scale == 0
            else silent("QNT012"),
            f"Q/DQ behind a convolution with per-channel scales, one of them {scale:g}",
            source=True,
        )
