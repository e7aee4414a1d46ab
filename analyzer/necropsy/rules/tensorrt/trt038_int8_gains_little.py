"""trtexec measured hardly more speed in INT8 than in half precision

What it means
    trtexec timed one model twice, as an INT8 engine and in FP16 or BF16, with the same shapes. INT8
    gains nothing, or far less than it should where convolutions and products take the time.

Why it happens
    Layers stayed in floating point (no scales, no kernels, misaligned channels), types are converted
    between them, scales are computed at run time (dynamic quantization), or launches and copies
    bound the inference and not arithmetic.

How to confirm
    `--dumpProfile --exportProfile --exportLayerInfo --profilingVerbosity=detailed` of both engines: the
    layers that are not INT8, and reformats, with their times.

How to fix
    Profile both engines by layers, then quantize what stayed in floating point; where enqueueing binds,
    CUDA graphs or a larger batch come first.

Limits
    Summaries of whole runs only: which layers are the cause is not in them. Runs are of one model if
    the names of their files are the same but for words of precision. A published figure for static
    INT8 on Conv-BN-ReLU is 1.39 times FP16 (2568 against 1842 images a second, batch 64).
    Where profiles by layers are at hand QNT007 says more, and this rule is silent.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/best-practices.html
    - https://github.com/NVIDIA/TensorRT/issues/993
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy_parsers.tensorrt_log.records import TrtBuild, TrtRun

from necropsy.claim import from_record
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.evidence.trt_summaries import TrtSummaries
from necropsy.finding import Confidence, Fact, Finding, Fix, Related, Severity
from necropsy.rule import rule

_HALF: Final = frozenset({"fp16", "bf16"})
_LOW: Final = frozenset({"int8", "best"})
_WORDS: Final = re.compile(
    r"(?:^|[-_. ])(?:int8|i8|fp16|f16|half|bf16|fp32|f32|qat|ptq|qdq|quant\w*|calib\w*|static|dynamic|best|v?\d{1,2})"
    r"(?=$|[-_. ])",
    re.IGNORECASE,
)
_LOW_NAME: Final = re.compile(r"(?:^|[-_. /])(?:int8|i8|qat|ptq|qdq|quantized)(?=$|[-_. ])", re.IGNORECASE)
_HALF_NAME: Final = re.compile(r"(?:^|[-_. /])(?:fp16|f16|half|bf16)(?=$|[-_. ])", re.IGNORECASE)
_SHAPES: Final = ("shapes", "optShapes", "batch", "useCudaGraph", "infStreams", "streams")


class Settings(Struct, frozen=True):
    """`gain`: how many times faster INT8 is at least, else a warning; `expected`: below it a note (as in QNT007)."""

    gain: float = 1.1
    expected: float = 1.3


class _Timed(Struct, frozen=True):
    """A run with its build: whether it was INT8, by the options (`sure`) or only by the file's name."""

    run: TrtRun
    build: TrtBuild
    low: bool
    sure: bool
    ms: float

    @property
    def model(self) -> tuple[str, ...]:
        """What must be the same of two runs: the model's name, shapes, device."""
        stem = re.split(r"[/\\]", _file(self.build))[-1].rsplit(".", 1)[0]
        shapes = (self.build.flags.get(f, "") for f in _SHAPES)
        return (_WORDS.sub("", stem).strip("-_. ").lower(), self.build.device, *shapes)


@rule("TRT038", "int8-gains-little", Severity.WARNING, settings=Settings)
def check(
    summaries: TrtSummaries, builds: TrtBuilds, trt_layers: TrtLayers | None, settings: Settings
) -> Iterator[Finding]:
    """One finding an INT8 run that has a twin in half precision."""
    if trt_layers is not None and any(v.total_ms for v in trt_layers.engines):
        return
    timed = [t for run in summaries if (t := _timed(run, builds.of(run))) is not None]
    for low in (t for t in timed if t.low):
        twin = next((t for t in timed if not t.low and t.model == low.model and low.model[0]), None)
        if twin is not None and twin.ms < settings.expected * low.ms:
            yield _finding(low, twin, settings)


def _timed(run: TrtRun, build: TrtBuild | None) -> _Timed | None:
    if build is None or run.compute is None:
        return None
    ms = run.compute.median if run.compute.median is not None else run.compute.mean
    if not ms:
        return None
    types = build.types or frozenset()
    if types & _LOW or build.quantized:
        return _Timed(run, build, True, True, ms)
    if types & _HALF:
        return _Timed(run, build, False, True, ms)
    if _LOW_NAME.search(_file(build)):
        return _Timed(run, build, True, False, ms)
    return _Timed(run, build, False, False, ms) if _HALF_NAME.search(_file(build)) else None


def _file(build: TrtBuild) -> str:
    return build.flags.get("onnx") or build.flags.get("loadEngine") or build.model


def _finding(low: _Timed, half: _Timed, settings: Settings) -> Finding:
    gain = half.ms / low.ms
    how = f"{gain:.2f} times as fast as" if gain >= 1 else f"{1 / gain:.2f} times slower than"
    bound = low.run.enqueue is not None and (low.run.enqueue.median or 0.0) >= 0.8 * low.ms
    facts: dict[str, Fact] = {
        "INT8": _described(low),
        "half precision": _described(half),
        "gain": f"{gain:.2f}, expected at least {settings.expected:g} where arithmetic binds",
    }
    why = "enqueueing takes as long as the GPU's work" if bound else "which layers keep it back is not in the summaries"
    profile = Fix(
        "Profile both engines by layers, and give both to necropsy",
        "flag",
        command="trtexec --loadEngine=FILE --dumpProfile --exportProfile=profile.json "
        "--exportLayerInfo=layers.json --profilingVerbosity=detailed",
    )
    graph = Fix("Capture the inference in a CUDA graph, or enlarge the batch, before quantizing more", "flag")
    return from_record(
        low.run,
        f"In INT8 {_file(low.build)} is {how} in half precision ({low.ms:.3g} ms against {half.ms:.3g} ms of GPU "
        f"compute time): {why}.",
        Severity.WARNING if gain < settings.gain else Severity.NOTE,
        confidence=Confidence.CERTAIN if low.sure and half.sure else Confidence.LIKELY,
        facts=facts,
        fixes=(graph, profile) if bound else (profile,),
        related=(Related(half.run.anchor, "the run in half precision"),),
    )


def _described(timed: _Timed) -> str:
    speed = f", {timed.run.throughput:.4g} queries/s" if timed.run.throughput is not None else ""
    return f"{_file(timed.build)}: {timed.ms:.4g} ms{speed}"
