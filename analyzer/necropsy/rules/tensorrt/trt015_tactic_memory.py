"""Tactics skipped for want of memory: mostly harmless if the engine was built

What it means
    While it times kernels, TensorRT skips those that ask for more memory than is free or allowed.
    The engine that comes out is correct; a faster kernel may be among those that were skipped.

Why it happens
    The limit of the workspace pool is small (`--memPoolSize=workspace:..`, `set_memory_pool_limit`, the
    16 MiB of trtexec before 8.4), or other programs hold memory of the GPU during the build.

How to confirm
    "Engine built" or a performance summary follows: then it is a note. "Could not find any
    implementation" follows: then TRT019 tells it.

How to fix
    If a limit was set, raise it above the largest request and compare latencies. Otherwise
    nothing, or build while the GPU is free.

Limits
    What a skipped tactic would have gained is not known. Some releases print requests without unit, or
    in MB what others print in bytes; where it is not known, the number is given as printed.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/reference/troubleshooting.html
    - https://github.com/NVIDIA/TensorRT-LLM/issues/493
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.numbers import natural
from necropsy_parsers.tensorrt_log.records import TrtBuild, TrtMessage

from necropsy.claim import from_record
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._memory import amount, default_workspace, is_bytes
from necropsy.units import human_bytes

_KINDS: Final = ("tactic-memory", "tactic-device", "workspace-short", "workspace-more", "scratch-short")
_RAISE: Final = Fix(
    "Raise the workspace limit above the largest request, build again, and compare latencies",
    "flag",
    command="trtexec --memPoolSize=workspace:MIB ...  # config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, n)",
)


@rule("TRT015", "tactic-memory", Severity.NOTE)
def check(messages: TrtMessages, builds: TrtBuilds) -> Iterator[Finding]:
    """One finding a build; where the build failed for it, TRT019 tells that."""
    groups: dict[tuple[str, int], list[TrtMessage]] = {}
    for row in messages.of(*_KINDS):
        groups.setdefault((row.anchor.input, row.build), []).append(row)
    failed = {(m.anchor.input, m.build) for m in messages.of("no-implementation")}
    for where, rows in groups.items():
        if where not in failed:
            yield _finding(rows, builds.of(rows[0]))


def _finding(rows: Sequence[TrtMessage], build: TrtBuild | None) -> Finding:
    device = next((r for r in rows if r.kind == "tactic-device"), None)
    skipped = sum(r.count for r in rows if r.kind in ("tactic-memory", "scratch-short"))
    skipped = skipped or sum(r.count for r in rows if r.kind == "workspace-more")
    limit = build.workspace if build is not None else None
    limit = default_workspace(build) if limit is None else limit
    asked = _largest(rows, device)
    facts: dict[str, Fact] = {"tactics skipped": skipped} if skipped else {}
    if limit is not None:
        facts["workspace limit"] = human_bytes(limit)
    if asked:
        facts["largest request"] = asked
    first = rows[0]
    times = f"{skipped} times " if skipped > 1 else ""
    if limit is not None:
        need = f", and a skipped tactic asks for {asked}" if asked else ""
        return from_record(
            first,
            f"The workspace is limited to {human_bytes(limit)}{need}: tactics were skipped {times}that may be faster.",
            Severity.WARNING,
            facts=facts,
            fixes=(_RAISE,),
        )
    done = build is not None and (build.finished or build.outcome == "passed")
    why = (
        f"the GPU had too little memory free ({amount(device)})"
        if device is not None
        else "they ask for too much memory"
    )
    end = "; the engine was built, so that this is harmless" if done else "; harmless if the engine was built"
    return from_record(
        first, f"Tactics were skipped {times}because {why}{end}.", Severity.NOTE, facts=facts, subject="harmless"
    )


def _largest(rows: Sequence[TrtMessage], device: TrtMessage | None) -> str:
    """The largest request, with its unit where that is known."""
    told = [
        natural(r.words["bytes"])
        for r in rows
        if r.kind in ("workspace-more", "scratch-short") and r.words.get("bytes")
    ]
    if told:
        return human_bytes(max(told))
    if device is not None:
        return f"{device.words.get('size', '?')} {device.words.get('unit', 'MB')}"
    sizes = [natural(r.words["size"]) for r in rows if r.kind == "tactic-memory" and r.words.get("size")]
    if not sizes:
        return ""
    return human_bytes(max(sizes)) if is_bytes(max(sizes), device) else f"{max(sizes)} (the log tells no unit)"
