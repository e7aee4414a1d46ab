"""TensorRT does not support this GPU, or the GPU lacks a type that the model needs

What it means
    The builder refuses the GPU, or a type in the network that this GPU has no units for. Nothing is built.

Why it happens
    Each release drops old architectures (TensorRT 10 needs compute capability 7.5 or more), and knows new ones
    only from some release on. FP8 needs 8.9 or more, FP4 10.0.

How to confirm
    `nvidia-smi --query-gpu=name,compute_cap --format=csv`, and the support matrix of the release.

How to fix
    A release that supports the GPU, another GPU, or another quantization.

Limits
    The numbers above are of the support matrices and may change with releases.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/getting-started/support-matrix.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import failure, of_build

_RELEASE: Final = Fix("Install a TensorRT that supports this GPU (see its support matrix)", "command")
_GPU: Final = Fix(
    "Or build on a GPU that this release supports; engines are built for the GPU they are built on", "config"
)
_TYPE: Final = Fix("Quantize the model to a type that this GPU has (INT8 from 7.5 on, FP8 from 8.9 on)", "code")


@rule("TRT036", "gpu-not-supported", Severity.FATAL)
def check(messages: TrtMessages, builds: TrtBuilds, exceptions: Exceptions) -> Iterator[Finding]:
    """One finding a build."""
    for row in messages.of("hardware"):
        build = builds.of(row)
        facts: dict[str, Fact] = {}
        if build is not None and build.device:
            facts["GPU"] = build.device
        if need := row.words.get("need"):
            what = row.words.get("what", "The network").strip()
            text = (
                f"{what} need hardware with {need} support, which this GPU has not: {of_build(build)} builds no engine."
            )
            fixes: tuple[Fix, ...] = (_TYPE, _GPU)
        else:
            gpu = row.words.get("gpu", "this GPU")
            text = f"The GPU ({gpu}) is not supported by {of_build(build)}: no engine can be built or run on it."
            fixes = (_RELEASE, _GPU)
        yield failure(row, text, builds, exceptions, facts=facts, fixes=fixes)
