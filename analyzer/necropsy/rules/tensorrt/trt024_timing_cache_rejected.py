"""The timing cache was not used, so that all kernels were timed again

What it means
    A cache of timings was given to the builder, which could not use it. The engine is correct; the build
    took as long as without a cache.

Why it happens
    The cache was written by another TensorRT, another CUDA, or on another GPU; or its file is empty or cut. In
    8.x the same message also comes where no cache was given ("Detected invalid timing cache, setup
    a local cache instead"): then it means nothing.

How to confirm
    Compare TensorRT's version and the GPU with those of the run that wrote the file.

How to fix
    Write the cache anew on this machine, and keep one file for each pair of TensorRT's version and GPU.

Limits
    Whether a file was given is only known where trtexec's command line is in the log.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/advanced.html
    - https://github.com/NVIDIA/TensorRT/issues/2503
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_record
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule

_ANEW: Final = Fix(
    "Delete the cache and have it written anew here; keep one for each version of TensorRT and GPU", "config",
    command="trtexec --timingCacheFile=trt86_h100.cache ...",
)  # fmt: skip


@rule("TRT024", "timing-cache-rejected", Severity.NOTE)
def check(messages: TrtMessages, builds: TrtBuilds) -> Iterator[Finding]:
    """One finding a build."""
    told: set[tuple[str, int]] = set()
    for row in messages.of("timing-cache"):
        if (row.anchor.input, row.build) in told:
            continue
        told.add((row.anchor.input, row.build))
        build = builds.of(row)
        local = "setup a local cache instead" in row.text
        given = build is not None and "timingCacheFile" in build.flags
        sure = given or not local
        text = (
            "The timing cache that was given could not be used (another TensorRT, GPU or a damaged file): all kernels "
            "were timed again."
            if sure
            else "No valid timing cache was given, so the builder uses one of its own: harmless."
        )
        severity = Severity.WARNING if sure else Severity.NOTE
        yield from_record(row, text, severity, fixes=(_ANEW,) if sure else (), subject="given" if sure else "own")
