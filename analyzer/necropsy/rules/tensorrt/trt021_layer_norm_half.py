"""LayerNorm runs in FP16, where its sums can overflow

What it means
    TensorRT found the parts of a layer normalisation (ReduceMean, Pow, Sqrt, ...) behind an attention
    and will compute them in FP16. The square of a value above 256 is beyond FP16's largest value, so that
    variances overflow and outputs become inf or NaN, or lose accuracy.

Why it happens
    The model was exported with an opset below 17, where LayerNormalization is no operator of its own, and FP16
    was allowed for all layers. From opset 17 on, TensorRT computes the statistics in FP32.

How to confirm
    Compare outputs of FP16 and FP32 layer by layer (`polygraphy debug precision`).

How to fix
    Export with opset 17 or later. Else keep Pow, ReduceMean, Sqrt, Add and Div of these nodes in FP32: up to
    TensorRT 10 by layer precisions together with the flag that obeys them; in a strongly typed
    network by Cast nodes.

Limits
    It says that an overflow is possible, not that one happened. Setting layer precisions without
    the constraint flag has no effect, and no error.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/accuracy-considerations.html
    - https://github.com/NVIDIA/TensorRT/issues/3101
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_record
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import by_release, major, places_of, some

_OPSET: Final = Fix(
    "Export with opset 17 or later, where LayerNorm is one operator whose statistics stay in FP32", "code",
    command="torch.onnx.export(model, args, 'model.onnx', opset_version=17)",
)  # fmt: skip
_OBEY: Final = Fix(
    "Or keep its nodes (Pow, ReduceMean, Sqrt, Add, Div) in FP32, with constraints that are obeyed", "flag",
    command="trtexec --fp16 --precisionConstraints=obey --layerPrecisions=NAME:fp32 ...",
)  # fmt: skip
_GRAPH: Final = Fix("Or keep its nodes in FP32 by Cast nodes in the graph (ModelOpt AutoCast)", "code")


_SCOPE: Final = re.compile(r", scope: .*?(?:__module\.)?(?P<path>[\w.]+)\s*$")  # TorchScript's, behind the node


def _names(told: str) -> list[str]:
    """The layers of one warning: a list of ONNX nodes, or a node of TorchScript with the modules it is in."""
    if (m := _SCOPE.search(told)) is not None:
        return [m["path"]]
    return [told] if " = " in told else re.split(r", (?=\S)", told)


@rule("TRT021", "layer-norm-half", Severity.WARNING)
def check(messages: TrtMessages, builds: TrtBuilds, nodes: OnnxNodes | None, sources: Sources) -> Iterator[Finding]:
    """One finding a build."""
    told: set[tuple[str, int]] = set()
    for row in messages.of("layernorm-half"):
        if (row.anchor.input, row.build) in told:
            continue
        told.add((row.anchor.input, row.build))
        rows = [r for r in messages.of("layernorm-half") if (r.anchor.input, r.build) == (row.anchor.input, row.build)]
        names = [n for r in rows for s in r.subjects for n in _names(s)]
        build = builds.of(row)
        facts: dict[str, Fact] = {"layers": names[:20]} if names else {}
        if build is not None and build.opset is not None:
            facts["opset"] = build.opset
        which = f" ({some(names)})" if names else ""
        yield from_record(
            row,
            f"LayerNorm{which} runs in FP16, where the squares of its inputs overflow above 256: outputs may become "
            "inf "
            "or lose accuracy.",
            Severity.WARNING,
            code=places_of(names[:20], row, nodes, sources),
            facts=facts,
            fixes=by_release(major(row, builds), (_OPSET, _OBEY), (_OPSET, _GRAPH), (_OPSET, _GRAPH)),
        )
