"""TensorRT found no kernel for a layer, and the build ended

What it means
    "Could not find any implementation for node X": every kernel that TensorRT tried for the
    layer was refused or failed. The sentence is always the same; what to do about it depends on
    why, which stands in the lines before it.

Why it happens
    A region given to the Myelin compiler (`{ForeignNode[a...b]}`) could not be compiled: a limit
    or a bug of that release. Or all tactics were skipped because they ask for more memory than
    the workspace or the GPU has. Or no runner has a kernel for this combination of types and
    formats: an INT8 layer that Q/DQ nodes fused into something nobody wrote a kernel for, a type
    the GPU does not support, a plugin that supports none of the formats.

How to confirm
    Build with --verbose and read the runners of the layer: "has no valid tactics for this config",
    "Skipping tactic ... due to insufficient memory", "Skipping tactic ... due to exception", or
    "Fastest Tactic ... Time: inf".

How to fix
    Myelin: a newer release; else cut the region (fold constants, mark a tensor inside as an
    output) to find the operation. Memory: a larger workspace pool, or more free memory. No
    kernel under Q/DQ: move or drop the Q/DQ pair behind the block, or put an Identity there.

Limits
    Without a verbose log the reason is undetermined. A request for memory that is small beside
    the GPU's, in a Myelin region, is no sign of missing memory: since 8.4 the workspace is the whole
    GPU by default; trtexec before that gave 16 MiB.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/reference/troubleshooting.html
    - https://github.com/NVIDIA/TensorRT/issues/1917
    - https://github.com/NVIDIA/TensorRT/issues/3385
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from necropsy_parsers.numbers import natural
from necropsy_parsers.tensorrt_log.records import TrtBuild, TrtMessage, TrtTactic

from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.evidence.trt_tactics import TrtTactics
from necropsy.finding import Confidence, Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import failure, of_build, places_of, short
from necropsy.rules.tensorrt._memory import amount, default_workspace, is_bytes
from necropsy.units import human_bytes

_UPGRADE: Final = Fix("Build with a newer TensorRT: such limits and bugs of its compiler go away between releases")
_CUT: Final = Fix(
    "Find the operation that it cannot compile: fold constants, then build parts of the region by themselves",
    "command",
    command="polygraphy surgeon sanitize model.onnx --fold-constants -o folded.onnx",
)
_POOL: Final = Fix(
    "Give the builder a larger workspace, or leave its limit out (8.4 and later: all memory of the GPU)",
    "flag",
    command="trtexec --memPoolSize=workspace:4096 ...  # MiB; --workspace before 8.4",
)
_IDENTITY: Final = Fix(
    "Put an Identity behind the block, or drop the Q/DQ pair behind it, so that it is not fused into one INT8 layer",
    "code",
)
_FREE: Final = Fix("Free the GPU's memory (other processes, other engines), or build on a larger GPU of the same kind")
_CONTEXT: Final = Fix(
    "Use one CUDA context: do not import pycuda.autoinit in a calibrator or plugin while the builder runs", "code"
)
_VERBOSE: Final = Fix(
    "Build again with a verbose log, which names each kernel that was tried and why it was refused", "flag",
    command="trtexec --verbose ...",
)  # fmt: skip


NEAR: Final = 60  # lines before the error in which a refused request for memory is taken for this layer's


class _Why(Struct, frozen=True):
    """Why no kernel is left: a clause, what to do, how sure."""

    clause: str
    fixes: tuple[Fix, ...]
    confidence: Confidence = Confidence.CERTAIN


@rule("TRT019", "no-implementation", Severity.FATAL)
def check(
    messages: TrtMessages,
    builds: TrtBuilds,
    exceptions: Exceptions,
    tactics: TrtTactics | None,
    nodes: OnnxNodes | None,
    sources: Sources,
) -> Iterator[Finding]:
    """One finding a layer."""
    for row in messages.of("no-implementation"):
        layer = row.words.get("layer", "")
        tried = tactics.of_layer(layer, row.anchor.input, row.build) if tactics is not None else []
        build = builds.of(row)
        near = [m for m in messages if m.build == row.build and m.anchor.input == row.anchor.input and m.seq <= row.seq]
        why = _why(row, layer, tried, near, build)
        facts: dict[str, Fact] = {"layer": layer, "error code": row.code or 0}
        if tried:
            facts["runners tried"] = list(dict.fromkeys(_tried(t) for t in tried))[:8]
        yield failure(
            row,
            f"No implementation is left for layer {short(layer)}: {why.clause}; {of_build(build)} gave up the build.",
            builds,
            exceptions,
            code=places_of([layer], row, nodes, sources, layer=True),
            confidence=why.confidence,
            facts={k: v for k, v in facts.items() if v},
            fixes=why.fixes,
            subject=layer,
        )


def _tried(t: TrtTactic) -> str:
    said = t.skipped or ("all tactics take inf" if t.infinite else f"{t.candidates} tactics timed")
    return f"{t.runner}: {said}"


def _why(
    row: TrtMessage, layer: str, tried: Sequence[TrtTactic], near: Sequence[TrtMessage], build: TrtBuild | None
) -> _Why:
    foreign = "ForeignNode[" in layer or any(t.runner == "Myelin" for t in tried)
    asked, unit = _asked(row, tried, near)
    limit = build.workspace if build is not None else None
    short_of_pool = row.words.get("why", "").startswith("insufficient")
    full = [m for m in near if m.kind == "out-of-memory" and row.anchor.line - m.anchor.line < NEAR]
    if full:
        largest = max(natural(m.words.get("bytes", "0")) for m in full)
        need = f" for {human_bytes(largest)}" if largest else ""
        return _Why(f"the GPU ran out of memory{need} when its kernels were tried", (_FREE, _POOL))
    if (reason := next((m for m in reversed(near) if m.kind == "tactic-failed"), None)) is not None:
        said = _exception(reason.words.get("why", ""))
        if foreign:
            return _Why(f"the Myelin compiler failed on this region ({said})", (_UPGRADE, _CUT))
        return _Why(f"its kernels failed when they were run ({said})", (_CONTEXT, _UPGRADE), Confidence.LIKELY)
    if short_of_pool or (asked and limit is not None and unit and asked > limit):
        need = f": one asks for {human_bytes(asked)}" if asked and unit else ""
        had = f", {human_bytes(limit)} is allowed" if limit is not None else ""
        return _Why(f"every tactic was skipped because the workspace is too small{need}{had}", (_POOL,))
    device = next((m for m in reversed(near) if m.kind == "tactic-device"), None)
    if device is not None and (not foreign or asked > 1 << 30):
        return _Why(
            f"every tactic was skipped because the GPU has too little memory free ({amount(device)})", (_FREE, _POOL)
        )
    if foreign:
        return _region(asked, unit, tried, build)
    if asked:
        size = human_bytes(asked) if unit else f"{asked} (the log tells no unit)"
        return _Why(f"all tactics were skipped because of memory; one asks for {size}", (_POOL, _FREE))
    if tried and all(t.skipped == "no valid tactics" for t in tried):
        return _kernels(tried)
    if tried:
        return _Why("no kernel that was tried can be used", (_UPGRADE, _VERBOSE), Confidence.LIKELY)
    return _Why("why is undetermined, because the log is not verbose", (_VERBOSE,), Confidence.POSSIBLE)


def _exception(why: str) -> str:
    """What an exception says: behind `Error is:` where Myelin tells the operation first."""
    text = why.removeprefix("exception ").partition("Error is:")
    return " ".join((text[2] or text[0]).split())[:160].rstrip(". ")


def _region(asked: int, unit: bool, tried: Sequence[TrtTactic], build: TrtBuild | None) -> _Why:
    clause = "the Myelin compiler could not build this region"
    fixes: tuple[Fix, ...] = (_UPGRADE, _CUT)
    if any(t.infinite for t in tried):
        clause += ", all its tactics take inf"
    if asked and unit:
        default = default_workspace(build)
        clause += f"; its only tactic was skipped asking for {human_bytes(asked)}"
        if default is not None and asked > default:
            clause += f", more than the {human_bytes(default)} that trtexec allows unless told otherwise"
            fixes = (_POOL, *fixes)
        elif asked < 1 << 30:
            clause += ", which is little and no sign that memory is short"
    return _Why(clause, fixes, Confidence.LIKELY)


def _kernels(tried: Sequence[TrtTactic]) -> _Why:
    runners = ", ".join(dict.fromkeys(t.runner for t in tried))
    quantized = any("Int8" in t.inputs or "FP8" in t.inputs for t in tried)
    if quantized:
        return _Why(
            f"no runner ({runners}) has a valid tactic for this fused INT8 (Q/DQ) layer, a limit of the fusion",
            (_IDENTITY, _UPGRADE),
            Confidence.LIKELY,
        )
    if any(t.runner.startswith("Plugin") for t in tried):
        return _Why(
            "its plugin supports none of the types and formats that were tried",
            (Fix("Make the plugin's supportsFormatCombination accept a linear FP32 or FP16 format", "code"), _UPGRADE),
            Confidence.LIKELY,
        )
    formats = "; ".join(list(dict.fromkeys(t.inputs for t in tried if t.inputs))[:2])
    return _Why(
        f"no runner ({runners}) has a valid tactic for {formats or 'its types and formats'}",
        (
            Fix("Allow another precision for this layer, or rewrite it with operations that have kernels", "code"),
            _UPGRADE,
        ),
        Confidence.LIKELY,
    )


def _asked(row: TrtMessage, tried: Sequence[TrtTactic], near: Sequence[TrtMessage]) -> tuple[int, bool]:
    """The largest request that was refused for this layer, and whether it is known to be in bytes."""
    sizes = [int(t.shortage) for t in tried if t.shortage]
    if not sizes:
        sizes = [
            natural(m.words["size"])
            for m in near
            if m.kind == "tactic-memory" and row.anchor.line - m.anchor.line < NEAR
        ]
    if not sizes:
        return 0, False
    largest = max(sizes)
    device = next((m for m in reversed(near) if m.kind == "tactic-device"), None)
    return largest, is_bytes(largest, device)
