"""The tool crashed after the engine was built: the build itself is complete

What it means
    TensorRT says that the engine was built, and then the process that built it crashed in native code. What the
    log tells of the build holds; what the tool does next (saving, loading and timing the engine) is missing.

Why it happens
    Libraries that do not fit the driver or each other (cuDNN, cuBLAS, a plugin), a plugin's destructor, or a
    bug of the release, met when the engine is loaded or the process ends.

How to confirm
    The engine's file exists and can be loaded by another process.

How to fix
    Load the engine that was saved (`trtexec --loadEngine`); if that crashes, too, run it under a debugger for the
    native stack, and compare the libraries with what the release was built for.

Limits
    Whether the file was written before the crash is not told by all releases.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/reference/troubleshooting.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_record
from necropsy.conditions import PROCESS_DIED
from necropsy.evidence.process_exits import ProcessExits
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.finding import Finding, Fix, Related, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import of_build

_LOAD: Final = Fix(
    "See whether the engine was saved, and load it by itself", "command", command="trtexec --loadEngine=model.engine"
)
_STACK: Final = Fix(
    "If that crashes, too: get the native stack", "command", command="gdb -batch -ex run -ex bt --args trtexec ..."
)


@rule("TRT034", "crash-after-build", Severity.ERROR)
def check(builds: TrtBuilds, exits: ProcessExits) -> Iterator[Finding]:
    """One finding a crash."""
    for row in exits:
        build = builds.crashed_built(row)
        if build is None:
            continue
        seconds = f" in {build.seconds:.0f} s" if build.seconds is not None else ""
        yield from_record(
            row,
            f"The tool crashed ({row.signal}) after {of_build(build)} had built the engine{seconds}: the build is "
            "complete, "
            "what follows it (saving, timing) is missing.",
            Severity.ERROR,
            facts={"signal": row.signal},
            fixes=(_LOAD, _STACK),
            related=(Related(build.anchor, "the build"),),
            shows=frozenset({PROCESS_DIED}),
        )
