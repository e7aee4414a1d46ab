"""An engine that does not fit the TensorRT or the GPU that loads it

What it means
    A serialized engine (plan) is bound to the TensorRT that built it and, unless built otherwise, to
    the GPU's compute capability. The runtime that loads it is another one, or the file is no engine at all.

Why it happens
    The engine was built in another container or on another machine; two installations of TensorRT are
    mixed (pip and system packages, LD_LIBRARY_PATH); the file is cut, or is another format (an ONNX file, an
    engine of TensorRT for RTX, one with metadata before it as ultralytics writes).

How to confirm
    `trtexec --getPlanVersionOnly --loadEngine=FILE` tells the version of an engine; `python -c "import tensorrt;
    print(tensorrt.__version__)"` and `ldconfig -p | grep nvinfer` the runtime's.

How to fix
    Build the engine again with the TensorRT and on the GPU that run it, or install the version that built
    it. For engines that travel: `--versionCompatible`, `--hardwareCompatibilityLevel`.

Limits
    "Version tag" numbers (such as 239) are tags of the serialization format, no versions of TensorRT: only
    which of two is newer can be told. A current tag of 0 is written by a runtime that reads another kind of
    header.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/advanced.html
    - https://github.com/NVIDIA/TensorRT/issues/2176
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.tensorrt_log.records import TrtMessage

from necropsy.claim import from_record
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import failure

_REBUILD: Final = Fix(
    "Build the engine again with the TensorRT and on the GPU that load it; delete the old file", "command"
)
_ALIGN: Final = Fix(
    "Or make both sides the same TensorRT; look for two installations in one environment", "command",
    command="python -c 'import tensorrt; print(tensorrt.__version__, tensorrt.__file__)'; ldconfig -p | grep nvinfer",
)  # fmt: skip
_PORTABLE: Final = Fix(
    "For engines that must run on several GPUs or releases, build them so", "flag",
    command="trtexec --versionCompatible --hardwareCompatibilityLevel=ampere+ ...",
)  # fmt: skip
_FILE: Final = Fix(
    "Check the file: its size, that it was written in binary mode, and that it is an engine of this TensorRT"
)


@rule("TRT025", "engine-mismatch", Severity.FATAL)
def check(messages: TrtMessages, builds: TrtBuilds, exceptions: Exceptions) -> Iterator[Finding]:
    """One finding an engine that cannot be loaded; a note of one that was built on another model of GPU."""
    for row in messages.of("plan-tag", "plan-library", "plan-device", "plan-magic", "plan-newer"):
        if row.kind == "plan-magic" and _is_cache(row, messages):
            continue
        text, fixes = _said(row)
        facts: dict[str, Fact] = {
            k: row.words[k] for k in ("file", "runtime", "plan") if any(c.isalnum() for c in row.words.get(k, ""))
        }
        names = {"file": "engine", "runtime": "the runtime's", "plan": "the engine's"}
        yield failure(
            row, text, builds, exceptions, facts={names[k]: v for k, v in facts.items()}, fixes=fixes,
            subject=row.words.get("file", ""),
        )  # fmt: skip
    for row in messages.of("plan-model"):
        yield from_record(
            row,
            "The engine was built on another model of GPU (or with other clocks) than the one that runs it: it "
            "works, but "
            "its kernels were chosen for that one.",
            Severity.NOTE,
            fixes=(Fix("Build it on the GPU that runs it, and compare latencies", "command"),),
        )


def _said(row: TrtMessage) -> tuple[str, tuple[Fix, ...]]:
    name = f" {row.words['file']}" if row.words.get("file") else ""
    runtime, plan = row.words.get("runtime", ""), row.words.get("plan", "")
    if row.kind == "plan-tag":
        return _tags(name, int(runtime), int(plan))
    if row.kind == "plan-library":
        if not any(c.isdigit() for c in plan):
            return (
                f"The engine{name} does not fit TensorRT {runtime}, which loads it, and does not tell the version "
                "it was built by: it is of another one, cut, or no engine.",
                (_FILE, _REBUILD, _ALIGN),
            )
        order = _order(plan, runtime)
        return (
            f"The engine{name} was built by TensorRT {plan} and is loaded by {runtime}{order}: it does not fit this "
            "version.",
            (_REBUILD, _ALIGN, _PORTABLE),
        )
    if row.kind == "plan-device":
        return (
            f"The engine{name} was built on a GPU of compute capability {plan} and is loaded on one of {runtime}: it "
            "does "
            "not fit this GPU.",
            (_REBUILD, _PORTABLE),
        )
    if row.kind == "plan-newer":
        return (
            f"The engine{name} has a newer format than the call that loads it: engine and runtime are of different "
            "versions of TensorRT.",
            (_REBUILD, _ALIGN),
        )
    return (
        f"The file{name} does not begin as an engine of this TensorRT does: it is cut, of another format, or of a "
        "version "
        "that differs.",
        (_FILE, _REBUILD, _ALIGN),
    )


def _tags(name: str, runtime: int, plan: int) -> tuple[str, tuple[Fix, ...]]:
    if runtime == 0:
        return (
            f"The engine{name} is of another kind or version of TensorRT than the runtime that loads it (its header "
            "says so).",
            (_REBUILD, _ALIGN),
        )
    order = "a newer" if plan > runtime else "an earlier"
    return (
        f"The engine{name} was serialized by {order} version of TensorRT than the one that loads it (serialization "
        "tag "
        f"{plan}, the runtime's is {runtime}).",
        (_REBUILD, _ALIGN),
    )


def _order(plan: str, runtime: str) -> str:
    a, b = ([int(x) for x in v.split(".") if x] for v in (plan, runtime))
    return ", which is later" if b > a else ", which is earlier" if b < a else ""


def _is_cache(row: TrtMessage, messages: TrtMessages) -> bool:
    """Whether the file that was read is a timing cache: the next message says that it will not be used."""
    return any(0 < m.seq - row.seq < 2000 for m in messages.of("timing-cache") if m.anchor.input == row.anchor.input)
