"""Which lines held the device's memory

What it means
    A memory snapshot knows the stack of each block that torch's allocator gave out. Summed
    by the innermost line of your own code, it says what filled the GPU: when an allocation
    was refused, else at the highest point of the recorded history, else when it was taken.

Why it happens
    Most memory of training is activations kept for the backward pass; then gradients, the
    optimizer's state (twice the weights for Adam, in FP32) and the weights. A line whose
    blocks grow in number from step to step keeps results alive: a list of losses or
    outputs that still hold their graph, a cache without bound.

How to confirm
    Open the snapshot at pytorch.org/memory_viz, or look at
    `necropsy.load(path).live_memory`: one row a stack, with its bytes and blocks.

How to fix
    By what holds most. Forward pass: a smaller micro-batch with accumulation, activation
    checkpointing of the module at that line, lower precision. Kept results: `.detach()` or
    `.item()` before they are stored. Optimizer state: a lighter optimizer, or sharding it
    (ZeRO-1, FSDP). Weights: lower precision or sharding.

Limits
    The line is where memory was asked for, which need not be what keeps it alive. It is said
    to grow if eight blocks or more that stay were allocated over half of the history or more; the
    statement that stores them is read from the run's own source, if that is at hand. Blocks
    are called weights, optimizer state or forward pass only if a function of torch that
    makes just these is in their stack. The backward pass allocates on threads without
    Python: gradients have no line. Memory from before recording began has no stack. What
    other libraries and the CUDA context hold is not in a snapshot.

References
    - https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy_parsers.snapshot.model import MemorySnapshot

from necropsy.claim import event_of, event_of_record, process_of, ranks_of
from necropsy.evidence.device_memory import DeviceMemory
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.memory_snapshots import MemorySnapshots
from necropsy.evidence.sources import Sources
from necropsy.finding import MAX_PLACES, Confidence, Fact, Finding, Fix, Place, Severity
from necropsy.rule import rule
from necropsy.rules.memory._held import (
    LEAST,
    SHARE,
    Held,
    by_line,
    by_part,
    called_from,
    fixes_of,
    held_of,
    large_of,
    refused_alike,
    sentence,
    stored_by,
)
from necropsy.rules.memory._keeping import certain, place_of
from necropsy.units import human_bytes


class Thresholds(Struct, frozen=True):
    """`share`: part of the memory from which a line is a place; `least`: bytes below which a healthy run is not told.

    Both are this project's own: a line below a twentieth is no lever, and some hundred megabytes fit any GPU.
    """

    share: float = SHARE
    least: int = LEAST


_RECORD: Final = Fix(
    "Record stacks before anything is allocated", "code", command="torch.cuda.memory._record_memory_history()"
)


@rule("OOM009", "memory-by-line", Severity.WARNING, settings=Thresholds, aliases=("memory-snapshot",))
def check(
    snapshots: MemorySnapshots,
    refusals: DeviceMemory | None,
    exceptions: Exceptions | None,
    sources: Sources,
    t: Thresholds,
) -> Iterator[Finding]:
    """One finding a device of a snapshot that was taken when memory ran out, or that holds much."""
    for s in snapshots.snapshots:
        held = held_of(s, sources.tree)
        if held.total and (s.refused or held.total >= t.least):
            yield _finding(s, held, refusals, exceptions, t)


def _finding(
    s: MemorySnapshot, held: Held, refusals: DeviceMemory | None, exceptions: Exceptions | None, t: Thresholds
) -> Finding:
    large = large_of(held, t.share)[:MAX_PLACES]
    lines = [
        Place(line.frame.file, line.frame.line, None, line.frame.function, how="memory snapshot") for line in large
    ]
    keeping = [place_of(k) for line in large if line.grows and (k := certain(line.kept)) is not None]
    return Finding(
        message=f"{held.when[0].upper()}{held.when[1:]}, {sentence(s, held, large)}",
        anchor=s.anchor,
        severity=Severity.WARNING if s.refused else Severity.NOTE,
        confidence=Confidence.CERTAIN if s.whole else Confidence.LIKELY,
        code=tuple(dict.fromkeys([*lines[:1], *keeping, *lines[1:]]))[:MAX_PLACES],
        ranks=ranks_of(s.origin),
        process=process_of(s.origin),
        seq=s.seq,
        event=f"memory@{s.anchor.input}:{s.device}",
        subject=f"GPU {s.device}" if s.device else "",
        follows=_refusal(s, refusals, exceptions) if s.refused else "",
        facts=_facts(s, held),
        fixes=fixes_of(held, large) if held.lines else (_RECORD,),
    )


def _facts(s: MemorySnapshot, held: Held) -> dict[str, Fact]:
    facts: dict[str, Fact] = {
        "held by line (blocks)": by_line(held),
        "called from": called_from(held),
        "stored by": stored_by(held),
        "held by kind": by_part(held),
        "allocated when taken": human_bytes(s.allocated),
        "reserved when taken": human_bytes(s.reserved),
    }
    if s.peak is not None:
        facts["highest in the history"] = human_bytes(s.peak.bytes)
        facts["events in the history"] = len(s.history)
    return {k: v for k, v in facts.items() if v != []}


def _refusal(s: MemorySnapshot, refusals: DeviceMemory | None, exceptions: Exceptions | None) -> str:
    """The event of the log's message about the same refusal; "" where none or several fit."""
    fitting = [m for m in refusals or () if refused_alike(m, s)]
    if len(fitting) != 1:
        return ""
    row = exceptions.said(fitting[0]) if exceptions is not None else None
    return event_of(row) if row is not None else event_of_record(fitting[0])
