"""The log ends while TensorRT times kernels: no engine came of this build

What it means
    The last lines of the log are tactics. The build did not finish, at least not in this log.

Why it happens
    The process was ended (time limit, memory of the host, a signal, Ctrl-C), the log was cut, or the build is still
    running. Builds of INT8 and FP16 together time each layer in several types and formats, most of it reformats.

How to confirm
    The scheduler's or shell's record of how the process ended.

How to fix
    Give it more time, keep a timing cache so that a second build goes on faster, or lower the
    builder's optimization level for a first try.

Limits
    What ended the process is not in TensorRT's log.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/best-practices.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_record
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule

_CACHE: Final = Fix(
    "Keep a timing cache, so that the next build does not start from nothing", "flag",
    command="trtexec --timingCacheFile=timing.cache ...  # TensorRT for RTX needs none",
)  # fmt: skip
_LEVEL: Final = Fix(
    "For a first try, lower the optimization level", "flag", command="trtexec --builderOptimizationLevel=2 ..."
)


@rule("TRT028", "build-cut-short", Severity.NOTE)
def check(builds: TrtBuilds, messages: TrtMessages) -> Iterator[Finding]:
    """One finding an input that ends in the middle of a build."""
    for build in builds:
        if not build.timing or any(m.level in ("E", "F") for m in messages.errors(build)):
            continue
        layers, reformats = build.timed - build.timed_reformats, build.timed_reformats
        far = f"{reformats} runners of reformats" if reformats else "before any reformat was"
        yield from_record(
            build,
            f"The log ends while kernels are timed ({layers} runners of layers, {far}): no engine came of this build, "
            "and why it ended is not told.",
            Severity.NOTE,
            confidence=Confidence.LIKELY,
            facts={"runners timed": layers, "reformats timed": reformats},
            fixes=(_CACHE, _LEVEL),
        )
