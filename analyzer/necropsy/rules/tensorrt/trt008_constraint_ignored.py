"""No kernel obeys the precision that was asked for, so it was ignored

What it means
    A layer was given a precision or output type, and no implementation has it: TensorRT took the
    fastest one in another type. Speed and accuracy of that layer are not what was asked for.

Why it happens
    No kernel exists for that layer in that type on this GPU, the layer was fused with others of
    another type, or its formats at the network's input or output are fixed.

How to confirm
    The engine's layer information shows the types that were used.

How to fix
    Ask for another type, or for none. Up to TensorRT 10 a request counts only with
    OBEY_PRECISION_CONSTRAINTS (the build then fails instead) or PREFER_PRECISION_CONSTRAINTS. From 11 on
    there are no such requests: put the types into the graph.

Limits
    The message does not say which type was asked for.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/advanced.html
    - https://github.com/NVIDIA/TensorRT/issues/1231
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_record
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import by_release, major, named, places_of

_ANOTHER: Final = Fix("Take the request off these layers, or ask for a type in which TensorRT has them", "code")
_OBEY: Final = Fix(
    "To have the build fail instead, obey the constraints", "flag", command="trtexec --precisionConstraints=obey ..."
)
_GRAPH: Final = Fix("Give these layers their types in the ONNX graph (Cast nodes; ModelOpt AutoCast)", "code")


@rule("TRT008", "constraint-ignored", Severity.WARNING)
def check(messages: TrtMessages, builds: TrtBuilds, nodes: OnnxNodes | None, sources: Sources) -> Iterator[Finding]:
    """One finding a build."""
    for row in messages.of("not-obeyed"):
        facts: dict[str, Fact] = {"layers": row.count, "names": list(row.subjects[:20])}
        one = row.count == 1
        yield from_record(
            row,
            f"{'A layer' if one else f'{row.count} layers'} ({named(row.count, row.subjects)}) had a precision asked "
            "for "
            f"that no implementation obeys, so that {'it runs' if one else 'they run'} in another one.",
            Severity.WARNING,
            code=places_of(row.subjects[:5], row, nodes, sources, layer=True),
            facts=facts,
            fixes=by_release(major(row, builds), (_ANOTHER, _OBEY), (_GRAPH,), (_ANOTHER,)),
        )
