"""What each case holds, and what must be said of it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.engine_cases.build import Layer, T, conv, engine, engine11, other, profile, reformat, summary
from tests.support.engine_cases.case import IO, EngineCase, fires, silent, timed
from tests.support.engine_cases.fusing import exports, folded, fusions, names
from tests.support.engine_cases.nets import IMAGE, body16, half_end, half_start, quantized
from tests.support.engine_cases.quantization import caches, gain, pooling, sums_and_pairs


def products() -> Iterator[EngineCase]:
    """TRT001, TRT002, QNT003."""
    start = half_start()
    x = start[-1].outs[0]
    slow, y = body16(
        "/body/body.1/Conv", x, tactic="sm80_xmma_fprop_conv1x1_f16f16_f32_f32_nhwc_simt_small_batch_bias_relu"
    )
    says = ("without Tensor Cores", "simt", r"/body/body\.1/Conv", "0\\.100 ms")
    yield EngineCase(
        "TRT001/fires-simt-kernel",
        timed([*start, slow, *half_end(y)]),
        fires("TRT001", "warning", *says, place="tagger.py:30", exactness="line"),
        "a convolution in FP16 on a kernel of ordinary cores",
        source=True,
    )
    deep, z = body16("/body/body.0/dw/Conv", x, groups=64, tactic="cuda_core_depthwise_fprop_f16")
    tensor, y = body16("/body/body.1/Conv", z)
    yield EngineCase(
        "TRT001/silent-depthwise",
        timed([*start, deep, tensor, *half_end(y)]),
        silent("TRT001"),
        "a depthwise convolution on ordinary cores, as any would be, between kernels of Tensor Cores",
    )
    odd, y = body16("/neck/Conv", x, 37)
    yield EngineCase(
        "TRT002/fires-37-channels",
        timed([*start, odd, *half_end(y)]),
        fires("TRT002", "warning", "37 channels", "padded to 40", "of 8", place="tagger.py:31", exactness="line"),
        "an FP16 convolution with 37 channels",
        source=True,
    )
    wide, y = body16("/neck/Conv", x, 1004)
    yield EngineCase(
        "TRT002/silent-image-and-1004",
        timed([*start, wide, *half_end(y)]),
        silent("TRT002"),
        "an image of 3 channels and 1004 channels, which padding does not make much larger",
    )
    a = T("a", "int8", (8, 64, 56, 56), "CHW32")
    for channels, name in ((37, "fires-37-channels"), (1008, "silent-1008-channels")):
        b = T("b", "int8", (8, channels, 56, 56), "CHW32")
        layers = [
            reformat("image_QuantizeLinear", T("image", "fp32", (8, 64, 56, 56)), a, 0.01, "QDQ"),
            conv("neck.weight + neck.weight_QuantizeLinear + /neck/Conv", [a], b, 0.06),
            reformat(
                "/neck/Conv_output_0_DequantizeLinear", b, T("logits", "fp32", (8, channels, 56, 56)), 0.01, "QDQ"
            ),
        ]
        wanted = fires(
            "QNT003", "warning", "37 channels", "padded to 48", "23%", place="tagger.py:31", exactness="line"
        )
        yield EngineCase(
            f"QNT003/{name}",
            timed(layers),
            wanted if channels == 37 else silent("QNT003"),
            f"an INT8 convolution with {channels} channels",
            source=True,
        )


def moves() -> Iterator[EngineCase]:
    """TRT003, TRT004, TRT005."""
    start = half_start()
    x = start[-1].outs[0]
    f1, f2 = T("x_fp32", "fp32", (8, 64, 56, 56)), T("/norm/Div_output_0", "fp32", (8, 64, 56, 56))
    back = T("x_fp16", "fp16", (8, 64, 56, 56), "HWC8")
    island = [
        reformat("Reformatting CopyNode for Input Tensor 0 to PWN(/norm/Div)", x, f1, 0.03),
        other("PWN(/norm/Div)", "PointWise", [f1], [f2], 0.03),
        reformat("Reformatting CopyNode for Output Tensor 0 to PWN(/norm/Div)", f2, back, 0.03),
    ]
    yield EngineCase(
        "TRT003/fires-fp32-island",
        timed([*start, *island, *half_end(back)]),
        fires("TRT003", "warning", "FP16 to FP32", "convert types", "another precision than its neighbours"),
        "one pointwise layer in FP32 between layers in FP16",
    )
    h = T("x_half", "fp16", (8, 64))
    more = {"TacticName": "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_tensor64x64x16"}
    eleven = [
        Layer("__myl_Cast_myl0_0", "Reformat", [T("x", "fp32", (8, 64))], [h], 0.02, {"Origin": "CAST"}),
        Layer("/head/Gemm_myl0_1", "gemm", [h], [T("y", "fp16", (8, 16))], 0.05, more),
    ]
    yield EngineCase(
        "TRT003/fires-trt11-input",
        {
            "layers.json": engine11(eleven, [T("x", "fp32", (8, 64))], [T("y", "fp16", (8, 16))]),
            "profile.json": profile(eleven),
        },
        fires(
            "TRT003",
            "warning",
            "network's input from FP32 to FP16",
            "export the model with that type",
            never=["inputIOFormats"],
        ),
        "TensorRT 11: the input of a strongly typed network is cast first",
    )
    yield EngineCase(
        "TRT003/silent-quantized",
        timed(quantized(gap=False)),
        silent("TRT003"),
        "conversions that Q/DQ nodes ask for, and a reformat that was optimized away",
    )


def layouts() -> Iterator[EngineCase]:
    """TRT004."""
    start = half_start()
    x = start[-1].outs[0]
    hops, at = [], x
    for i in range(4):
        to = T(f"r{i}", "fp16", (8, 64, 56, 56), "CHW" if i % 2 == 0 else "HWC8")
        hops.append(reformat(f"Reformatting CopyNode for Input Tensor 0 to /mix.{i}/Transpose", at, to, 0.02))
        at = T(f"m{i}", "fp16", (8, 64, 56, 56), to.layout)
        hops.append(other(f"/mix.{i}/Transpose", "Shuffle", [to], [at], 0.02))
    yield EngineCase(
        "TRT004/fires-transposes",
        timed([*start, *hops, *half_end(at)]),
        fires("TRT004", "warning", "4 of 14 layers", "only change layouts", "a neighbour's layout \\(4\\)"),
        "four reformats between transposes",
    )
    free = [Layer(r.name, "NoOp", r.ins, r.outs, 0.0, r.more) if r.type == "Reformat" else r for r in hops]
    yield EngineCase(
        "TRT004/silent-no-ops",
        timed([*start, *free, *half_end(at)]),
        silent("TRT004"),
        "the same reformats, optimized away",
    )


def slices() -> Iterator[EngineCase]:
    """TRT005."""
    f1 = T("x_fp32", "fp32", (8, 64, 56, 56))
    for dtype, name in (("fp16", "fires-to-half"), ("fp32", "silent-same-type")):
        sliced = T("s", dtype, (8, 32, 56, 56))
        rest = [
            reformat("/cut/Slice", f1, sliced, 0.02, "SLICE"),
            conv("/head/Conv", [sliced], T("logits", dtype, (8, 16, 56, 56)), 0.05),
        ]
        inputs = [conv("/stem/Conv", [IMAGE], f1, 0.1)]
        yield EngineCase(
            f"TRT005/{name}",
            timed([*inputs, *rest]),
            fires("TRT005", "warning", "/cut/Slice changes the type from FP32 to FP16")
            if dtype == "fp16"
            else silent("TRT005"),
            "a slice behind a layer in FP32 and before one in " + dtype.upper(),
        )


def evenly() -> tuple[list[Layer], dict[str, str | bytes]]:
    """Convolutions that share the time evenly, with their profile."""
    layers = half_start()
    at = layers[-1].outs[0]
    for i in range(6):
        layer, at = body16(f"/body/body.{i}/Conv", at)
        layers.append(layer)
    return layers, timed([*layers, *half_end(at)])


def hot() -> Iterator[EngineCase]:
    """TRT010."""
    start = half_start()
    x = start[-1].outs[0]
    gather = other("/embed/Gather", "Gather", [x], [T("g", "fp16", x.dims, "HWC8")], 0.4)
    yield EngineCase(
        "TRT010/fires-gather",
        timed([*start, gather, *half_end(gather.outs[0])]),
        fires("TRT010", "note", "/embed/Gather takes \\d+%"),
        "a gather that takes more than all convolutions",
    )
    _, even = evenly()
    yield EngineCase("TRT010/silent-even", even, silent("TRT010"), "convolutions that share the time evenly")


def small() -> Iterator[EngineCase]:
    """TRT011."""
    x = half_start()[-1].outs[0]
    _, even = evenly()
    at = x
    tiny = [Layer(t.name, t.type, t.ins, t.outs, 0.006, t.more) for t in half_start()]
    for i in range(60):
        to = T(f"t{i}", "fp16", (1, 8, 4, 4), "HWC8")
        tiny.append(other(f"PWN(/tail/Mul_{i})", "PointWise", [at], [to], 0.005))
        at = to
    yield EngineCase(
        "TRT011/fires-sixty-pointwise",
        timed(tiny),
        fires("TRT011", "note", "63 of 63 layers take less than 0.010 ms", "useCudaGraph"),
        "sixty pointwise layers of a few microseconds",
    )
    yield EngineCase("TRT011/silent-few", even, silent("TRT011"), "few layers, each of a tenth of a millisecond")


def parts() -> Iterator[EngineCase]:
    """TRT012."""
    a, b = T("a", "fp16", (8, 64, 56, 56), "HWC8"), T("b", "fp16", (8, 32, 28, 28), "HWC8")
    first = [conv("/encoder/stem/Conv", [T("in0", "fp16", (8, 8, 64, 64), "HWC8")], a, 0.1)]
    second = [
        conv("/decoder/up/Conv", [a], b, 0.2),
        conv("/decoder/out/Conv", [b], T("out1", "fp16", (8, 8, 9, 9), "HWC8"), 0.1),
    ]
    files = {"part0.json": engine(first, ["in0", "a"]), "part1.json": engine(second, ["a", "out1"])}
    yield EngineCase(
        "TRT012/fires-two-parts", files, fires("TRT012", "note", "2 engines", "3 layers"), "a model cut in two"
    )
    apart = {
        "clip.json": engine([conv("/text/Conv", [T("in0", "fp16", (8, 8, 9, 9), "HWC8")], a, 0.1)], ["in0", "a"]),
        "vae.json": engine([conv("/decoder/Conv", [T("z", "fp16", (8, 8, 9, 9), "HWC8")], b, 0.1)], ["z", "b"]),
    }
    yield EngineCase("TRT012/silent-two-models", apart, silent("TRT012"), "engines of two models in one folder")
    yield EngineCase(
        "TRT012/silent-two-builds",
        {"a.json": engine(quantized(gap=True), IO), "b.json": engine(quantized(gap=False), IO)},
        silent("TRT012", "warning"),
        "two builds of one model",
    )


def sums() -> Iterator[EngineCase]:
    """TRT016."""
    layers, even = evenly()
    total = sum(t.ms for t in layers) + 0.016
    for factor, name in ((0.8, "fires-events-cost"), (0.98, "silent-close")):
        yield EngineCase(
            f"TRT016/{name}",
            {**even, "run.profile.metadata.json": summary(total * factor)},
            fires("TRT016", "note", "add up to", "25%") if factor < 0.9 else silent("TRT016"),
            f"a run takes {factor} of the sum of its layers",
        )


def waits() -> Iterator[EngineCase]:
    """TRT018."""
    size, boxes = T("n", "int32", (1,)), T("boxes", "fp32", (-1, 4))
    wait = [
        conv("/stem/Conv", [IMAGE], T("f", "fp32", (8, 64, 56, 56)), 0.1),
        other("/post/NonZero", "NonZero", [T("f", "fp32", (8, 64, 56, 56))], [T("i", "int32", (2, -1)), size], 0.02),
        other("[trainStation1]", "TrainStation", [size], [], 0.0),
        other("/post/Gather", "Gather", [T("i", "int32", (2, -1))], [boxes], 0.01),
    ]
    yield EngineCase(
        "TRT018/fires-nonzero",
        {"layers.json": engine(wait, ["image", "boxes"])},
        fires("TRT018", "warning", "host waits 1 time a run", "/post/NonZero"),
        "a NonZero whose result decides about sizes",
    )
    topk = [wait[0], other("/post/TopK", "TopK", wait[0].outs, [T("boxes", "fp32", (8, 100))], 0.02)]
    yield EngineCase(
        "TRT018/silent-topk",
        {"layers.json": engine(topk, ["image", "boxes"])},
        silent("TRT018"),
        "a top-k of fixed size",
    )


def builds() -> Iterator[EngineCase]:
    """TRT030."""
    x = half_start()[-1].outs[0]
    single, after = half_start(), x
    other_way = [Layer(t.name, t.type, t.ins, t.outs, t.ms, t.more) for t in single]
    float_out = T("w", "fp32", (8, 64, 28, 28))
    f_in = T("x32", "fp32", (8, 64, 56, 56))
    slower = [
        *other_way,
        reformat("Reformatting CopyNode for Input Tensor 0 to /body/body.1/Conv", after, f_in, 0.02),
        conv("/body/body.1/Conv", [f_in], float_out, 0.2),
        reformat(
            "Reformatting CopyNode for Output Tensor 0 to /body/body.1/Conv",
            float_out,
            T("w16", "fp16", (8, 64, 28, 28), "HWC8"),
            0.01,
        ),
        *half_end(T("w16", "fp16", (8, 64, 28, 28), "HWC8")),
    ]
    plain, w = body16("/body/body.1/Conv", after, ms=0.08)
    quick = [*single, plain, *half_end(w)]
    both = {
        "full/layers.json": engine(slower, IO), "full/profile.json": profile(slower),
        "half/layers.json": engine(quick, IO), "half/profile.json": profile(quick),
    }  # fmt: skip
    yield EngineCase(
        "TRT030/fires-kept-in-fp32",
        both,
        fires(
            "TRT030",
            "warning",
            "full takes",
            "half",
            r"/body/body\.1/Conv",
            "FP32 -> FP32, 0.200 ms instead of FP16 -> FP16, 0.080 ms",
        ),
        "one build keeps a convolution in FP32",
    )
    same = {k: v for k, v in both.items() if k.startswith("half")} | {
        "again/layers.json": both["half/layers.json"], "again/profile.json": both["half/profile.json"],
    }  # fmt: skip
    yield EngineCase("TRT030/silent-twice", same, silent("TRT030"), "the same build twice")


def all_cases() -> list[EngineCase]:
    """Every case."""
    engines = (
        products,
        moves,
        layouts,
        slices,
        hot,
        small,
        parts,
        sums,
        waits,
        builds,
        fusions,
        folded,
        exports,
        names,
    )
    quantized_ones = (pooling, sums_and_pairs, gain, caches)
    return [case for group in (*engines, *quantized_ones) for case in group()]
