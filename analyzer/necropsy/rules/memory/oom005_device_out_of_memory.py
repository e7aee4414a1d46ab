"""The GPU's memory was exhausted

What it means
    An allocation of device memory was refused. The arithmetic of the message tells which
    of four things happened: this process filled the device (exhaustion); it holds enough,
    but in pieces (fragmentation); others hold the rest (another process); or the size is
    one that no device has (a wrong number, not a lack of memory).

Why it happens
    Batch, sequence or model too large; activations kept by a list of losses; a peak in
    one step (evaluation, checkpoint, an unusually long sample). Another job, notebook or
    zombie process on the same GPU. A size computed from garbage.

How to confirm
    Exhaustion: `torch.cuda.max_memory_allocated()` over steps, a memory snapshot. Another
    process: `nvidia-smi` on that GPU at that time. Fragmentation: reserved minus allocated.

How to fix
    Exhaustion: smaller micro-batch with accumulation, activation checkpointing, lower
    precision, sharding. Fragmentation: expandable segments, if they are not on already.
    Another process: free the GPU, or make CUDA_VISIBLE_DEVICES effective.

Limits
    torch prints sizes with two decimals; arithmetic is exact to about 0.5%. A message
    without numbers (CUDA's own) cannot be told apart. Memory of the CUDA context and of
    libraries (NCCL, cuBLAS) counts as this process's. Which lines held the memory only a
    snapshot tells (OOM009); beside the log it is part of this finding.

References
    - https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf
    - https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy_parsers.messages.device_memory import OutOfDeviceMemory

from necropsy.claim import told
from necropsy.conditions import DEVICE_FULL, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.device_memory import DeviceMemory
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.memory_snapshots import MemorySnapshots
from necropsy.evidence.settings import Settings
from necropsy.evidence.sources import Sources
from necropsy.finding import Confidence, Fact, Finding, Fix, Related, Severity
from necropsy.rule import rule
from necropsy.rules.memory._held import (
    by_line,
    by_part,
    called_from,
    fixes_of,
    held_of,
    large_of,
    sentence,
    snapshot_of,
    stored_by,
)
from necropsy.units import human_bytes, percent


class Thresholds(Struct, frozen=True):
    """`fragmented_share`: unallocated part of what torch reserved, from which fragmentation is named.

    It also needs more bytes unallocated than were asked for. The founding article's alert
    for a running job is 0.35 (row S5.4b); at a refused allocation less is telling.
    `foreign_share`: part of the device
    held outside this process, from which another process is named; below it lie CUDA
    contexts and rounding.
    """

    fragmented_share: float = 0.20
    foreign_share: float = 0.10


LARGE: Final = 0.05  # part of the memory from which a line is worth a word, as in OOM009
MOST_FIXES: Final = 4

_SNAPSHOT: Final = Fix(
    "To see which lines held the memory, run it again under `necropsy capture --why memory`, or record a snapshot",
    "code",
    command="torch.cuda.memory._record_memory_history(); ...; torch.cuda.memory._dump_snapshot('snapshot.pickle')",
)
_SMALLER: Final = Fix("Lower the micro-batch (and accumulate gradients) or the sequence length", "config")
_LIGHTER: Final = Fix(
    "Use activation checkpointing, bf16 autocast, or shard the model and optimizer (FSDP, ZeRO)", "code"
)
_SEGMENTS: Final = Fix(
    "Let the allocator grow its segments; most effective against fragmentation", "env", "safe",
    command="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
)  # fmt: skip
_SPLIT: Final = Fix(
    "Keep large blocks from being split; expandable segments, the better remedy, need torch 2.1 or later",
    "env", "safe", command="PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128",
)  # fmt: skip
_VARIABLE: Final = Fix("Keep shapes from changing every step (bucket or pad), so that freed blocks fit again", "code")
_WHO: Final = Fix(
    "See who holds the GPU, stop stale processes, and check that CUDA_VISIBLE_DEVICES reaches the job",
    "command",
    command="nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv ; echo $CUDA_VISIBLE_DEVICES",
)
_SIZE: Final = Fix(
    "Find where the size comes from: a shape or length computed from wrong, overflowed or unreceived data",
    "investigate",
)


class Verdict(Struct, frozen=True):
    """What the arithmetic says: `kind`, a clause for the message, confidence, fixes."""

    kind: str
    clause: str
    confidence: Confidence
    fixes: tuple[Fix, ...]


def foreign_bytes(m: OutOfDeviceMemory) -> int | None:
    """Bytes of the device held outside this process; None where the wording does not give the parts."""
    if m.others:
        return sum(size for _, size in m.others)
    if m.total is None or m.free is None or m.in_use is None:
        return None
    return max(0, m.total - m.free - m.in_use)


def judge(m: OutOfDeviceMemory, expandable: bool, t: Thresholds) -> Verdict:
    """Which of the four it is."""
    if m.absurd or (m.tried is not None and m.total is not None and m.tried > 64 * m.total):
        return Verdict("absurd size", "a size that no device has, so the size itself is wrong and memory is not short",
                       Confidence.LIKELY, (_SIZE,))  # fmt: skip
    if m.tried is None or not m.total:
        clause = "the message has no numbers, so exhaustion, another process and a broken device cannot be told apart"
        return Verdict("undetermined", clause, Confidence.POSSIBLE, (_WHO, _SMALLER))
    if m.allowed is not None and m.in_use is not None and m.allowed < m.total * 0.95:
        clause = f"this process may use {human_bytes(m.allowed)} only (set_per_process_memory_fraction)"
        return Verdict(
            "exhaustion",
            clause,
            Confidence.LIKELY,
            (Fix("Raise the memory fraction, or lower the batch", "code"), _SMALLER),
        )
    foreign = foreign_bytes(m)
    if foreign is not None and foreign >= t.foreign_share * m.total and (m.free or 0) + foreign >= m.tried:
        clause = f"other processes hold {human_bytes(foreign)} ({percent(foreign / m.total)}) of the device"
        return Verdict("another process", clause, Confidence.LIKELY, (_WHO,))
    reserved = (m.allocated or 0) + (m.unallocated or 0)
    if m.unallocated and m.unallocated >= m.tried and m.unallocated >= t.fragmented_share * reserved:
        clause = (
            f"torch holds {human_bytes(m.unallocated)} reserved but unallocated, "
            "more than was asked for, in pieces too small: fragmentation"
        )
        fixes = (_VARIABLE,) if expandable else (_SPLIT if m.old else _SEGMENTS, _VARIABLE)
        return Verdict("fragmentation", clause, Confidence.LIKELY, fixes)
    if m.tried > m.total:
        clause = f"one tensor larger than the whole device ({human_bytes(m.total)})"
        return Verdict(
            "exhaustion",
            clause,
            Confidence.CERTAIN,
            (Fix("Check the shape at this line; no batch size makes it fit", "code"), _LIGHTER),
        )
    return Verdict(
        "exhaustion",
        _own_clause(m),
        Confidence.CERTAIN if m.in_use is not None else Confidence.LIKELY,
        (_SMALLER, _LIGHTER, _SNAPSHOT),
    )


def _own_clause(m: OutOfDeviceMemory) -> str:
    held = m.in_use or m.allocated
    if held is None or m.total is None:
        return "the device is exhausted"
    free = f", {human_bytes(m.free)} free" if m.free is not None else ""
    return f"this process itself holds {human_bytes(held)} of {human_bytes(m.total)}{free}: exhaustion"


def _facts(m: OutOfDeviceMemory, verdict: Verdict) -> dict[str, Fact]:
    sizes = {
        "asked for": m.tried, "capacity": m.total, "free": m.free, "in use by this process": m.in_use,
        "allocated in tensors": m.allocated, "reserved but unallocated": m.unallocated, "in CUDA-graph pools": m.pools,
        "held by others": foreign_bytes(m),
    }  # fmt: skip
    facts: dict[str, Fact] = {"kind": verdict.kind, "device": m.device}
    facts.update({k: human_bytes(v) for k, v in sizes.items() if v is not None})
    if m.others:
        facts["other processes"] = [f"pid {pid}: {human_bytes(size)}" for pid, size in m.others]
    return {k: v for k, v in facts.items() if v != ""}


@rule(
    "OOM005",
    "device-out-of-memory",
    Severity.FATAL,
    settings=Thresholds,
    aliases=("X11", "cuda-oom", "gpu-memory-fragmentation"),
)
def check(
    memory: DeviceMemory, exceptions: Exceptions, settings: Settings, activity: Activity,
    snapshots: MemorySnapshots | None, sources: Sources, t: Thresholds,
) -> Iterator[Finding]:  # fmt: skip
    """One finding a refused allocation; a memory snapshot of the same one says what held the memory."""
    expandable = any("expandable_segments:True" in s.value for s in settings)
    for m in memory:
        verdict = judge(m, expandable, t)
        asked = (
            f"{human_bytes(m.tried)} more" if m.tried is not None else "more than 1 EB" if m.absurd else "more memory"
        )
        where = f" on {m.device}" if m.device else ""
        message = f"{m.backend} out of memory{where}: {asked} was asked for and {verdict.clause}."
        if expandable and verdict.kind == "fragmentation":
            message = message.rstrip(".") + ", although expandable segments are already on."
        fixes, facts = verdict.fixes, _facts(m, verdict)
        related: tuple[Related, ...] = ()
        snapshot = snapshot_of(m, snapshots.snapshots) if snapshots is not None else None
        if snapshot is not None and (held := held_of(snapshot, sources.tree)).lines and verdict.kind == "exhaustion":
            large = large_of(held, LARGE)
            message = f"{message.rstrip('.')}; {sentence(snapshot, held, large)}"
            better = (*fixes_of(held, large), *(f for f in fixes if f is not _SNAPSHOT))
            fixes = tuple(dict.fromkeys(better))[:MOST_FIXES]
            told_of = {"held by line (blocks)": by_line(held), "called from": called_from(held)}
            told_of |= {"stored by": stored_by(held), "held by kind": by_part(held)}
            facts = {**{k: v for k, v in told_of.items() if v}, **facts}
            related = (Related(snapshot.anchor, "the snapshot that tells what held the memory"),)
        yield from told(
            m,
            exceptions,
            message,
            Severity.ERROR,
            activity=activity,
            facts=facts,
            related=related,
            fixes=fixes,
            confidence=verdict.confidence,
            shows=frozenset({DEVICE_FULL}),
            leaves=frozenset({DEVICE_FULL, PROCESS_DIED}),
        )
