"""TensorRT reported an error that no more specific rule knows

What it means
    The builder, the parser or the runtime of TensorRT failed. This is the rule for what no other
    rule explains; the message is TensorRT's own. The first error of a build leads, since those after it mostly
    repeat that there is no engine.

Why it happens
    Depends on the error; its category tells whose it is: API Usage Error (the program), Internal Error
    (TensorRT or a plugin), Cuda Runtime (the device), OutOfMemory.

How to confirm
    A verbose log tells what TensorRT was doing before.

How to fix
    See the message; search for it with the version in NVIDIA/TensorRT's issues.

Limits
    Errors after which the program went on may have been expected by it.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/reference/troubleshooting.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from necropsy_parsers.tensorrt_log.records import TrtMessage

from necropsy.claim import from_record, one_line
from necropsy.conditions import DEVICE_FAULT, DEVICE_FULL, NO_ENGINE, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Confidence, Fact, Finding, Fix, Severity
from necropsy.provenance.device_faults import FAULTS
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import CAUSES, ECHOES, ended, failure, harmless, just_before, of_build

_VERBOSE: Final = Fix(
    "Run again with a verbose logger, which tells what led to it",
    "flag",
    command="trtexec --verbose ...  # trt.Logger.VERBOSE",
)
_FREE: Final = Fix("Free memory of the GPU before the build: other processes, PyTorch's cache, other engines")
_BUFFERS: Final = Fix(
    "Check that each buffer that the engine gets is on the GPU and as large as its tensor (shape, type, batch), and "
    "is not freed while it runs",
    "code",
)
_SANITIZER: Final = Fix(
    "Let compute-sanitizer name the kernel and the access", "flag",
    command="compute-sanitizer --tool memcheck python infer.py",
)  # fmt: skip
_CALL: Final = Fix("Correct the call, or what was (not) set before it, as these words say", "code")
_CONDITION: Final = re.compile(r"Parameter check failed(?: at: [^\s,]+)?, condition: .*?\. (?=[A-Z])", re.DOTALL)
_PASSED: Final = (
    "The GPU ran out of memory while kernels were tried; the build went on without them and finished, so that faster "
    "ones may be missing."
)
_OTHERS: Final = frozenset({"error", "out-of-memory", "cuda-error", "engine-null", "tool-failed", "load-failed"})


@rule("TRT029", "tensorrt-error", Severity.ERROR, general=True)
def check(messages: TrtMessages, builds: TrtBuilds, exceptions: Exceptions, activity: Activity) -> Iterator[Finding]:
    """The first error of each build that nothing else explains."""
    told: set[tuple[str, int]] = set()
    for row in messages:
        where = (row.anchor.input, row.build)
        if row.level not in ("E", "F") or row.kind not in _OTHERS or where in told or _explained(row, messages):
            continue
        told.add(where)
        who = of_build(builds.of(row))
        if row.kind in ECHOES:
            text = f"{who} says that there is no engine ({one_line(row.text, 120)}), and the log not why."
            yield failure(row, text, builds, exceptions, confidence=Confidence.LIKELY, fixes=(_VERBOSE,))
            continue
        facts: dict[str, Fact] = {
            "category": row.category,
            "function": row.api,
            "times": row.count if row.count > 1 else 0,
        }
        full = row.kind == "out-of-memory" or "out of memory" in row.text
        if full and any(m.seq > row.seq and m.kind == "no-implementation" for m in messages.errors(row)):
            continue  # TRT019 says it of the layer
        if full and harmless(row, builds):
            yield from_record(row, _PASSED, Severity.NOTE, fixes=(_FREE,), facts={"times": row.count})
            continue
        fault = row.kind == "cuda-error" and FAULTS.search(row.text) is not None
        at = f" in {row.api}" if row.api else ""
        usage = row.category == "API Usage Error" and bool(row.api)
        said = _CONDITION.sub("", row.text) or row.text
        did = f"refused the call {row.api}" if usage else f"failed{at}"
        text = f"{who} {did}: {one_line(said, 240).rstrip('.')}."
        if fault:
            text += " Kernels report late: one launched before, of TensorRT, a plugin or the program, is to blame."
        fixes = (_FREE,) if full else (_BUFFERS, _SANITIZER) if fault else (_CALL,) if usage else (_VERBOSE,)
        changes: dict[str, Any] = {"facts": {k: v for k, v in facts.items() if v}, "fixes": fixes}
        same = {"out-of-memory", "cuda-error"} if full else {row.kind}
        later = any(m.seq > row.seq and m.kind in CAUSES - ECHOES - same for m in messages.errors(row))
        if harmless(row, builds):
            yield from_record(row, f"{text} The build went on and finished.", Severity.WARNING, **changes)
        elif later:  # the one that says why follows
            yield from_record(row, text, Severity.WARNING, activity=activity, confidence=Confidence.POSSIBLE, **changes)
        else:
            if fault:
                changes["leaves"] = frozenset({DEVICE_FAULT, NO_ENGINE})
            elif full:
                changes["leaves"] = frozenset({DEVICE_FULL, *_died(row, builds, exceptions)})
            yield failure(row, text, builds, exceptions, **changes)


def _explained(row: TrtMessage, messages: TrtMessages) -> bool:
    """Whether an earlier error of the build says why, or any at all if this one only says that there is no engine."""
    errors = messages.errors(row)
    if any(m.kind == "node-failed" and just_before(m, messages) is row for m in errors):
        return True
    if any(m.seq < row.seq and (m.kind in CAUSES or m.kind == "error") for m in errors):
        return True
    return row.kind in ECHOES and any(m.kind in CAUSES - ECHOES or m.kind == "error" for m in errors)


def _died(row: TrtMessage, builds: TrtBuilds, exceptions: Exceptions) -> frozenset[str]:
    return frozenset({NO_ENGINE, PROCESS_DIED}) if ended(row, builds, exceptions) else frozenset({NO_ENGINE})
