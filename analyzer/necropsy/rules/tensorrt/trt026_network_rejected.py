"""TensorRT refused the network itself, such as for the type of a shape tensor

What it means
    The model was parsed, and the network that came of it breaks a rule: a tensor that is used as a
    shape is no integer, no output is marked, the model's file is not there, or a strongly typed convolution has types
    for which there is no kernel. No engine is built; a Python program then goes on with None.

Why it happens
    Arithmetic on shapes in float or bool in the exported graph (Min, Equal, Where, Floor on sizes), which older
    releases refuse; weights in a separate file that was not moved along; FP16 or Q/DQ at a
    convolution that has no such kernel.

How to confirm
    The errors before "Network validation failed" name the tensors.

How to fix
    Fold the shape arithmetic into constants, export with fixed shapes, or use a newer release. For the
    other reasons see the fix that is given.

Limits
    INT64 warnings and clamped values before it are harmless; they are notes.

References
    - https://github.com/NVIDIA/TensorRT/issues/618
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-dynamic-shapes.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.tensorrt_log.records import TrtMessage

from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import failure, first_cause, of_build, places_of, short, some

_FOLD: Final = Fix(
    "Fold the shape arithmetic into constants", "command",
    command="polygraphy surgeon sanitize model.onnx --fold-constants -o folded.onnx",
)  # fmt: skip
_FIXED: Final = Fix("Export with fixed shapes, or keep shape arithmetic in integers in `forward`", "code")
_NEWER: Final = Fix("Use a newer TensorRT")
_OUTPUT: Final = Fix(
    "Mark an output, and look why parsing gave no layers", "code", command="network.mark_output(tensor)"
)
_MOVE: Final = Fix(
    "Keep the model's external data file beside the ONNX file, under the name it was exported with", "command"
)
_CAST: Final = Fix("Put a Cast at one input, or cast the whole graph consistently (ModelOpt AutoCast)", "code")
_KEEP: Final = Fix("Keep this convolution (and the Q/DQ around it) in FP32 when the model is cast", "code")


@rule("TRT026", "network-rejected", Severity.FATAL)
def check(
    messages: TrtMessages, builds: TrtBuilds, exceptions: Exceptions, nodes: OnnxNodes | None, sources: Sources
) -> Iterator[Finding]:
    """One finding a build."""
    told: set[tuple[str, int]] = set()
    for row in messages.of("shape-tensor", "mixed-types", "conv-strong", "model-file", "network-invalid"):
        where = (row.anchor.input, row.build)
        if where in told or not first_cause(row, messages):
            continue
        if row.kind == "network-invalid" and any(m.seq < row.seq and m.kind == "error" for m in messages.errors(row)):
            continue  # the error before it says why
        told.add(where)
        names = [n for m in messages.of(row.kind) if (m.anchor.input, m.build) == where for n in m.subjects]
        text, fixes = _said(row, names, of_build(builds.of(row)))
        yield failure(
            row, text, builds, exceptions, code=places_of([n.split(":")[0] for n in names[:5]], row, nodes, sources),
            facts={"names": names[:20]} if names else {}, fixes=fixes, subject=row.kind,
        )  # fmt: skip


def _said(row: TrtMessage, names: list[str], release: str) -> tuple[str, tuple[Fix, ...]]:
    if row.kind == "shape-tensor":
        want = row.words.get("want", "").strip() or "type Int32"
        one = len(names) == 1
        return (
            f"{some(names)} {'is' if one else 'are'} used as shape tensor{'' if one else 's'} and must have {want}: "
            f"{release} "
            "refuses the network and builds no engine.",
            (_FOLD, _FIXED, _NEWER),
        )
    if row.kind == "mixed-types":
        layer, both = (
            short(names[0] if names else "a layer"),
            (row.words.get("first", "?"), row.words.get("second", "?")),
        )
        return (
            f"Layer {layer} gets inputs of types {both[0]} and {both[1]}: in a strongly typed network {release} "
            "converts "
            "nothing by itself, and refuses it.",
            (_CAST,),
        )
    if row.kind == "conv-strong":
        layer = f" {short(names[0])}" if names else ""
        return (
            f"{release} has no kernel for convolution{layer} in the low precision that the strongly typed graph "
            "gives it.",
            (_KEEP,),
        )
    if row.kind == "model-file":
        file = (row.words.get("missing") or row.words.get("file", "")).strip("'\"., ")
        return f"The model's file {file or 'or its external data'} cannot be opened, so that there is no network.", (
            _MOVE,
        )
    if "at least one output" in row.text:
        return "The network has no output: nothing was marked as one, or parsing gave no layers.", (_OUTPUT,)
    return f"{release} refused the network and the log does not say why; the reason is undetermined.", (_NEWER,)
