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
    What ended the process is not in TensorRT's log. A layer in the middle of which the log ends may
    be one that hangs or takes very long (large regions of Myelin), or be there by chance.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/best-practices.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.tensorrt_log.records import TrtBuild, TrtTactic

from necropsy.claim import from_record
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.evidence.trt_tactics import TrtTactics
from necropsy.finding import Confidence, Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._claims import counted
from necropsy.rules.tensorrt._log import short

_CACHE: Final = Fix(
    "Keep a timing cache, so that the next build does not start from nothing", "flag",
    command="trtexec --timingCacheFile=timing.cache ...  # TensorRT for RTX needs none",
)  # fmt: skip
_LEVEL: Final = Fix(
    "For a first try, lower the optimization level", "flag", command="trtexec --builderOptimizationLevel=2 ..."
)


@rule("TRT028", "build-cut-short", Severity.NOTE)
def check(builds: TrtBuilds, messages: TrtMessages, tactics: TrtTactics | None) -> Iterator[Finding]:
    """One finding an input that ends in the middle of a build."""
    for build in builds:
        if not build.timing or any(m.level in ("E", "F") for m in messages.errors(build)):
            continue
        layers, reformats = build.timed - build.timed_reformats, build.timed_reformats
        far = f"{counted(reformats, 'runner')} of reformats" if reformats else "before any reformat was"
        last = _last(build, tactics)
        at = f", in the middle of {short(last.layer)} ({last.runner})" if last is not None else ""
        facts: dict[str, Fact] = {"runners timed": layers, "reformats timed": reformats}
        if last is not None:
            facts["last"] = f"{last.layer} ({last.runner})"
        yield from_record(
            build,
            f"The log ends while kernels are timed ({counted(layers, 'runner')} of layers, {far}){at}: no engine "
            "came of this build, and why it ended is not told.",
            Severity.NOTE,
            confidence=Confidence.LIKELY,
            facts=facts,
            fixes=(_CACHE, _LEVEL),
        )


def _last(build: TrtBuild, tactics: TrtTactics | None) -> TrtTactic | None:
    """The runner that the log ends in: nothing was told of its result."""
    last = tactics.last(build.anchor.input, build.build) if tactics is not None else None
    unfinished = last is not None and last.fastest_ms is None and not last.infinite and not last.skipped
    return last if unfinished else None
