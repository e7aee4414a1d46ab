"""trtexec does not know an option: it was renamed or removed in this release

What it means
    trtexec stops at options it does not know, prints its help and builds nothing. Commands from articles and older
    scripts often have options that later releases dropped.

Why it happens
    Implicit batch, UFF, Caffe and the old workspace option went with TensorRT 10; options about precisions went with 11
    (TRT009 tells these).

How to confirm
    `trtexec --help` of the release at hand.

How to fix
    Use the option that replaced it, or leave it out.

Limits
    Replacements are known for the options that are seen most; for others only that they are unknown is told.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/api/migration-guide.html
    - https://github.com/NVIDIA/TensorRT/blob/main/samples/common/sampleOptions.cpp
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import failure, of_build, some
from necropsy.rules.tensorrt.trt009_weak_typing import is_precision_option

# samples/common/sampleOptions.cpp and the release notes: removed in 10.0 unless noted.
_INSTEAD: Final = {
    "--workspace": "--memPoolSize=workspace:MIB",
    "--minTiming": "--avgTiming",
    "--buildOnly": "--skipInference",
    "--explicitBatch": "nothing: ONNX networks are always so",
    "--maxBatch": "--minShapes, --optShapes and --maxShapes",
    "--batch": "--shapes",
    "--uff": "an ONNX model",
    "--deploy": "an ONNX model",
    "--plugins": "--staticPlugins or --dynamicPlugins",
    "--nvtxMode": "--profilingVerbosity",
    "--heuristic": "--builderOptimizationLevel",
    "--buildDLAStandalone": "the standalone DLA tools",
    "--preview": "nothing: the features are in",
}


@rule("TRT035", "removed-option", Severity.FATAL)
def check(messages: TrtMessages, builds: TrtBuilds, exceptions: Exceptions) -> Iterator[Finding]:
    """One finding a run of trtexec."""
    told: set[tuple[str, int]] = set()
    for row in messages.of("unknown-option"):
        where = (row.anchor.input, row.build)
        if where in told:
            continue
        own = [m for m in messages.of("unknown-option") if (m.anchor.input, m.build) == where]
        options = [o for m in own if not is_precision_option(o := m.words.get("option", "").partition("=")[0])]
        if not options:
            continue
        told.add(where)
        fixes = [Fix(f"Instead of {o}: {_INSTEAD[o]}", "flag") for o in options if o in _INSTEAD]
        yield failure(
            row,
            f"trtexec of {of_build(builds.of(row))} does not know {some(options)}: it stopped, and nothing was built.",
            builds,
            exceptions,
            facts={"options": options},
            fixes=(*fixes, Fix("See the options of this release", "command", command="trtexec --help")),
        )
