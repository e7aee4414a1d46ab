"""What rules about TensorRT's log share: how bad a failure is, which release advice is for, how names are shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from necropsy_parsers.records import Record
from necropsy_parsers.tensorrt.records import EngineLayer, nodes_of
from necropsy_parsers.tensorrt_log.records import TrtBuild, TrtMessage

from necropsy.claim import from_record
from necropsy.conditions import NO_ENGINE, PROCESS_DIED
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Finding, Fix, Place, Severity
from necropsy.provenance.engine_layers import LayerPlaces

# What a program says when it goes on with the engine that it did not get.
WITHOUT_ENGINE: Final = re.compile(
    r"'NoneType' object (?:has no attribute '(?:serialize|create_execution_context|create_engine_inspector|num_\w+"
    r"|get_\w+|binding_\w+|device_memory\w*|max_batch_size|tobytes|nbytes|__enter__|execute\w*|set_\w+)'|is not)"
    r"|bytes-like object is required, not 'NoneType'|object of type 'NoneType' has no len"
    r"|(?:engines?|plan|TensorRT|[Ee]ngines? build\w*|serialized)\b.{0,60}\b(?:fail|could not|None)"
    r"|(?:[Cc]ould not|[Ff]ailed to) (?:deserialize|build|create|load|parse)\b.{0,40}(?:engine|[Oo][Nn][Nn][Xx]|networ)"
    r"|deserialize_cuda_engine\(\): incompatible function arguments"
    r"|AttributeError: __enter__|'NoneType' object does not support the context manager"
    r"|pybind11::init\(\): factory function returned nullptr",
    re.DOTALL,
)
# Libraries that build engines: what they raise right after an error of TensorRT is about it, whatever they say.
BUILDERS: Final = re.compile(
    r"[/\\](?:torch_tensorrt|tensorrt\w*|torch2trt|polygraphy|onnxruntime|onnx_tensorrt|trtorch)[/\\]"
)
NEAR: Final = 400  # lines between an error of TensorRT and the exception that it leads to
NEXT: Final = 40  # such lines where the exception does not name the engine
LISTED: Final = 3
# Errors that only say that there is no engine, or repeat what the parser has said.
ECHOES: Final = frozenset(
    {"engine-null", "tool-failed", "load-failed", "no-importer", "plugin-missing", "node-error", "network-invalid"}
)
# Errors that say why.
CAUSES: Final = frozenset(
    {"node-failed", "node-error", "plugin-missing", "shape-tensor", "network-invalid", "no-profile",
     "profile-incomplete", "model-file", "no-implementation", "out-of-memory", "cuda-error", "conv-strong",
     "unknown-option", "plan-tag", "plan-library", "plan-device", "plan-magic", "plan-newer", "input-shape",
     "mixed-types", "hardware", "strong-flag", "calibration-failed"}
)  # fmt: skip


def ended(message: TrtMessage, builds: TrtBuilds, exceptions: Exceptions) -> bool:
    """Whether an error ended the program: the tool says so, it crashes, or an exception about the engine follows."""
    build = builds.of(message)
    if build is not None and (build.outcome == "failed" or builds.crash_after(message) is not None):
        return True
    return follower(message, exceptions) is not None


def follower(message: Record, exceptions: Exceptions) -> ExceptionRow | None:
    """The exception that an error led to: not handled, near, and about an engine that is not there."""
    for row in exceptions:
        if row.anchor.input == message.anchor.input and row.seq > message.seq and not row.handled:
            near = row.anchor.line - message.anchor.line
            if near <= NEAR and WITHOUT_ENGINE.search(f"{row.name}: {row.text}"):
                return row
            if near <= NEXT and _of_builder(row):
                return row
    return None


def _of_builder(row: ExceptionRow) -> bool:
    """Whether a library that builds engines raised it, or the program asserted something about its result."""
    frames = row.main.frames
    if not frames:
        return False
    asserts = row.name == "AssertionError" and re.search(r"engine|plan|serialized", frames[-1].text or "") is not None
    return asserts or BUILDERS.search(frames[-1].file) is not None


def harmless(message: TrtMessage, builds: TrtBuilds) -> bool:
    """Whether the build of an error went on and finished; of several ranks in one log that cannot be known."""
    build = builds.of(message)
    return build is not None and build.finished and message.anchor.line < build.ended and message.origin.rank is None


def by_onnxruntime(message: TrtMessage) -> bool:
    """Whether onnxruntime's provider printed it: what TensorRT refuses it runs with another provider."""
    return "tensorrt_execution_provider" in message.anchor.text


def failure(message: TrtMessage, text: str, builds: TrtBuilds, exceptions: Exceptions, **changes: Any) -> Finding:
    """A finding about an error after which there is no engine: fatal if the program ended of it."""
    fatal = ended(message, builds, exceptions)
    leaves = {NO_ENGINE} | ({PROCESS_DIED} if fatal else set())
    base: dict[str, Any] = {"leaves": frozenset(leaves)}
    return from_record(message, text, Severity.FATAL if fatal else Severity.ERROR, **{**base, **changes})


def just_before(message: TrtMessage, messages: TrtMessages) -> TrtMessage | None:
    """An error that nothing knows, in the lines right before one of the parser: it says what the parser met."""
    near = [m for m in messages.errors(message) if m.kind == "error" and 0 < message.anchor.line - m.anchor.line <= 3]
    return near[-1] if near else None


def first_cause(message: TrtMessage, messages: TrtMessages) -> bool:
    """Whether no other error of the build, before it, says why."""
    return not any(m.kind in CAUSES and m.kind not in ECHOES and m.seq < message.seq for m in messages.errors(message))


def major(record: Record, builds: TrtBuilds) -> int | None:
    """TensorRT's major number for a row: its build's, else the one that all builds agree on."""
    own = builds.of(record)
    if own is not None and own.major is not None:
        return own.major
    known = {b.major for b in builds if b.major is not None}
    return known.pop() if len(known) == 1 else None


def by_release(number: int | None, old: Sequence[Fix], new: Sequence[Fix], neutral: Sequence[Fix]) -> tuple[Fix, ...]:
    """`old` for 10 and older, `new` from 11 on (strong typing, no calibrators), `neutral` of an unknown release."""
    if number is None:
        return tuple(neutral)
    return tuple(new if number >= 11 else old)


def short(name: str, limit: int = 90) -> str:
    """A layer's name for a sentence: long fusions from their middle."""
    if len(name) <= limit:
        return name
    return f"{name[: limit * 2 // 3]}…{name[-limit // 3 :]}"


def some(names: Iterable[str], limit: int = LISTED) -> str:
    """`a`, `a and b`, `a, b, c and 9 more`."""
    every = [short(n, 60) for n in names]
    if len(every) <= 1:
        return "".join(every)
    if len(every) <= limit:
        return f"{', '.join(every[:-1])} and {every[-1]}"
    return f"{', '.join(every[:limit])} and {len(every) - limit} more"


def named(number: int, names: Sequence[str]) -> str:
    """The same where the log tells `number` of them and names fewer."""
    more = number - min(len(names), LISTED)
    told = ", ".join(short(n, 60) for n in names[:LISTED])
    return f"{told} and {more} more" if more > 0 and told else some(names)


def places_of(
    names: Iterable[str], row: Record, nodes: OnnxNodes | None, sources: Sources, *, layer: bool = False
) -> tuple[Place, ...]:
    """The user's lines that ONNX nodes, or a layer's nodes, come of; () where nothing tells."""
    by_name = nodes.by_name if nodes is not None else {}
    resolver = LayerPlaces((), by_name, sources.tree)
    layers = [EngineLayer(row.anchor, row.anchor.input, 0, n, nodes=nodes_of(n) if layer else (n,)) for n in names if n]
    return resolver.all_of(layers) if layers else ()


def of_build(build: TrtBuild | None) -> str:
    """`TensorRT 8.6.0`, or `TensorRT` where the release is not told."""
    if build is None or not build.release:
        return "TensorRT for RTX" if build is not None and build.rtx else "TensorRT"
    return f"TensorRT{' for RTX' if build.rtx else ''} {'.'.join(map(str, build.release[:3]))}"
