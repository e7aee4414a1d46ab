"""Warnings of TensorRT that look bad and are harmless

What it means
    INT64 weights cast to INT32, values clamped to INT32, and subnormal FP16 weights come in nearly every log.
    They change nothing, or results by less than rounding does.

Why it happens
    torch exports indices and shapes as INT64, and open slice ends as the largest integer; TensorRT before 10
    has no INT64. Weights near zero are subnormal in FP16.

How to confirm
    Compare outputs with the model's own. A clamped value matters only if it is an index that is used.

How to fix
    Nothing.

Limits
    A weight that overflows is another thing: TRT020.

References
    - https://github.com/onnx/onnx-tensorrt/blob/main/docs/operators.md
    - https://github.com/NVIDIA/TensorRT/issues/2585
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.numbers import natural
from necropsy_parsers.tensorrt_log.records import TrtMessage

from necropsy.claim import from_record
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Finding, Related, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt.trt020_weights_overflow import overflows

_KINDS: Final = ("int64-cast", "clamped", "weights-converted", "linked-against", "unstable-compute")


@rule("TRT033", "benign-notices", Severity.NOTE)
def check(messages: TrtMessages) -> Iterator[Finding]:
    """One note an input."""
    inputs: dict[str, list[TrtMessage]] = {}
    for row in messages.of(*_KINDS):
        if row.kind != "weights-converted" or not overflows(row):
            inputs.setdefault(row.anchor.input, []).append(row)
    for rows in inputs.values():
        parts = list(_parts(rows))
        related = tuple(Related(r.anchor, "harmless, too") for r in rows[1:5])
        yield from_record(
            rows[0], f"Harmless warnings of TensorRT: {'; '.join(parts)}.", Severity.NOTE, related=related,
            facts={"warnings": sum(r.count for r in rows)},
        )  # fmt: skip


def _parts(rows: Sequence[TrtMessage]) -> Iterator[str]:
    kinds = {r.kind for r in rows}
    if "int64-cast" in kinds:
        yield "INT64 values of the model are used as INT32"
    if "clamped" in kinds:
        yield "values beyond INT32 were clamped (open slice ends, mostly)"
    small = [r for r in rows if r.kind == "weights-converted"]
    if small:
        numbers = sum(natural(r.words["number"]) for r in small if r.words.get("number", "").isdecimal())
        yield f"{numbers} weights near zero are subnormal in half precision"
    for row in rows:
        if row.kind == "linked-against":
            got, want = row.words.get("got"), row.words.get("want")
            yield f"{row.words.get('library')} {got} is loaded, not the {want} it was built with"
    if "unstable-compute" in kinds:
        yield "the GPU's clocks were not fixed while it was measured"
