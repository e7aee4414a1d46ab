"""Weights do not fit the lower precision: values overflow or are not finite

What it means
    When weights were converted to FP16 (or BF16), finite values were larger than the type holds and
    became its largest value, or infinities and NaN were among them. Such a constant is wrong in the
    engine.

Why it happens
    Constants like the -1e9 or -3.4e38 of an attention mask, unnormalised embeddings, statistics of
    a BatchNorm with tiny variance, a model that diverged.

How to confirm
    The verbose log lists the affected weights under the warning. Compare outputs with FP32
    (`polygraphy run --trt --onnxrt --fp16`).

How to fix
    Clamp mask constants to what FP16 holds (-65504; -1e4 is enough), keep that layer in FP32, or use
    BF16, which has the range of FP32.

Limits
    Counts of weights say little: one overflowing constant matters more than hundreds of
    subnormal ones, which TRT033 notes.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/accuracy-considerations.html
    - https://github.com/NVIDIA/TensorRT/issues/2585
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.numbers import natural
from necropsy_parsers.tensorrt_log.records import TrtMessage

from necropsy.claim import from_record
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import by_release, major, named, places_of

_CLAMP: Final = Fix("Clamp mask constants to what FP16 holds", "code", command="mask.masked_fill(m, -1e4)  # not -1e9")
_KEEP: Final = Fix(
    "Keep these layers in FP32, with constraints that are obeyed", "flag",
    command="trtexec --fp16 --precisionConstraints=obey --layerPrecisions=NAME:fp32 ...",
)  # fmt: skip
_GRAPH: Final = Fix("Keep these operations in FP32 in the graph (ModelOpt AutoCast leaves out what overflows)", "code")
_BF16: Final = Fix("Use BF16 where the GPU has it: its range is that of FP32", "config")


def overflows(row: TrtMessage) -> bool:
    """Whether a conversion lost values, not only precision near zero."""
    what = row.words.get("what", "")
    return "old" in row.words or "overflow" in what or "NaN" in what or "infinity" in what or "infinite" in what


@rule("TRT020", "weights-overflow", Severity.WARNING)
def check(messages: TrtMessages, builds: TrtBuilds, nodes: OnnxNodes | None, sources: Sources) -> Iterator[Finding]:
    """One finding a kind of conversion and build."""
    for row in messages.of("weights-converted"):
        if not overflows(row):
            continue
        what = row.words.get("what", "")
        half = "BF16" if "BF16" in what else "FP16"
        number = row.words.get("number", "?")
        kind = "NaN" if "NaN" in what else "infinite" if "infinit" in what else "overflowing"
        listed = f" ({named(natural(number), row.subjects)})" if row.subjects and number.isdecimal() else ""
        became = f"became the largest {half} value" if kind == "overflowing" else f"stay so in {half}"
        noun = "weight" if number == "1" else "weights"
        facts: dict[str, Fact] = {"weights": natural(number), "kind": kind} if number.isdecimal() else {"kind": kind}
        if row.subjects:
            facts["names"] = list(row.subjects[:20])
        text = f"{number} {noun}{listed} with {kind} values {became}: results of the layers that use them are wrong in "
        if old := "old" in row.words:
            text = "Weights are larger than FP16 can hold (65504): TensorRT can not build their layers in "
        yield from_record(
            row,
            f"{text}{half}.",
            Severity.ERROR if old and row.level == "E" else Severity.WARNING,
            code=places_of(row.subjects[:5], row, nodes, sources),
            facts=facts,
            fixes=(_CLAMP, *by_release(major(row, builds), (_KEEP,), (_GRAPH,), (_GRAPH,)), _BF16),
            subject=kind,
        )
