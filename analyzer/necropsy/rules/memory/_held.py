"""What a memory snapshot's device held, by line and by kind, at the moment that counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from necropsy_parsers.messages.device_memory import OutOfDeviceMemory
from necropsy_parsers.records import Frame
from necropsy_parsers.snapshot.model import OOM, Holding, MemorySnapshot

from necropsy.finding import Fix
from necropsy.provenance.files import SourceTree
from necropsy.provenance.holders import BACKWARD, FORWARD, NO_STACK, OPTIMIZER, WEIGHTS, part_of, user_frames
from necropsy.provenance.kept import Kept
from necropsy.rules.memory._growing import growing
from necropsy.rules.memory._keeping import at, certain, fix_of, kept_of, listed
from necropsy.units import human_bytes, percent

LISTED: Final = 8  # lines among the facts
CALLERS: Final = 3
SHARE: Final = 0.05  # part of the memory from which a line is told of as one that holds much
LEAST: Final = 512 << 20  # bytes in all below which a healthy run is not told
NEAR: Final = 8  # events from the end of the history within which a refusal is what the snapshot was taken for


class Line(Struct, frozen=True):
    """What one line of the user's holds; `grows`: most of it was added, and stayed, throughout the history.

    `callers` are the user's lines from which most of it was called, the innermost first; `kept`: the statements that
    may keep it, where the source is at hand.
    """

    frame: Frame
    bytes: int
    blocks: int
    part: str
    grows: bool = False
    callers: tuple[Frame, ...] = ()
    kept: tuple[Kept, ...] = ()


class Held(Struct, frozen=True):
    """What is judged of a snapshot: when it was, all bytes, by line and by part."""

    when: str
    total: int
    lines: tuple[Line, ...]
    parts: dict[str, int]


SMALLER: Final = Fix("Lower the micro-batch (and accumulate gradients) or the sequence length", "config")
_FIXES: Final = {
    FORWARD: (
        Fix("Checkpoint the activations of the module at that line, or run it in bf16 (autocast)", "code"),
        SMALLER,
    ),
    OPTIMIZER: (Fix("Use an optimizer with less state (8-bit, Adafactor), or shard it (ZeRO-1, FSDP)", "code"),),
    WEIGHTS: (Fix("Keep weights in a lower precision, or shard them (FSDP, ZeRO-3)", "code"),),
    NO_STACK: (Fix("Free gradients early: `optimizer.zero_grad(set_to_none=True)` before the forward pass", "code"),),
    BACKWARD: (Fix("Free gradients early: `optimizer.zero_grad(set_to_none=True)` before the forward pass", "code"),),
    "": (SMALLER,),
}
_RECORD: Final = Fix(
    "Record stacks before anything is allocated", "code", command="torch.cuda.memory._record_memory_history()"
)


def held_of(s: MemorySnapshot, tree: SourceTree | None = None) -> Held:
    """The moment to judge: the refusal it was taken at, else the peak of its history, else the snapshot itself.

    With the sources at hand, lines that go on holding more know what keeps their results.
    """
    last = s.history.action.rfind(OOM)
    if last >= 0 and len(s.history) - last <= NEAR:
        return _held(s, f"when {human_bytes(s.refused[-1].asked)} more was refused", s.live, tree)
    if s.peak is not None and s.peak.bytes > s.allocated:
        return _held(s, "at the peak of its history", s.peak.holdings, tree)
    return _held(s, "when the snapshot was taken", s.live, tree)


def _held(s: MemorySnapshot, when: str, holdings: Sequence[Holding], tree: SourceTree | None) -> Held:
    parts, size, count = Counter[str](), Counter[Frame](), Counter[Frame]()
    kinds: dict[Frame, Counter[str]] = {}
    callers: dict[Frame, Counter[tuple[Frame, ...]]] = {}
    found = [g for g in growing(s) if g.most]
    kept = kept_of(s, found, tree) if tree is not None else {}
    grown = {g.frame for g in found}
    for h in holdings:
        stack = s.stacks[h.stack]
        part, users = part_of(stack), user_frames(stack)
        frame = next(users, None)
        parts[part] += h.bytes
        if frame is not None:
            size[frame] += h.bytes
            count[frame] += h.blocks
            kinds.setdefault(frame, Counter())[part] += h.bytes
            callers.setdefault(frame, Counter())[tuple(islice(users, CALLERS))] += h.bytes
    lines = tuple(
        Line(f, n, count[f], kinds[f].most_common(1)[0][0], f in grown, _most(callers[f]), kept.get(f, ()))
        for f, n in size.most_common()
    )
    return Held(when, sum(h.bytes for h in holdings), lines, dict(parts.most_common()))


def _most(callers: Counter[tuple[Frame, ...]]) -> tuple[Frame, ...]:
    return callers.most_common(1)[0][0]


def large_of(held: Held, share: float) -> tuple[Line, ...]:
    """The lines that hold at least that part."""
    return tuple(line for line in held.lines if line.bytes >= share * held.total)


def sentence(s: MemorySnapshot, held: Held, large: Sequence[Line]) -> str:
    """What was held and from where, as the rest of a sentence."""
    of = f"torch's tensors held {human_bytes(held.total)} of GPU {s.device}"
    if not held.lines:
        return f"{of}, and no stack says from where: the history was not recorded."
    if not large:
        return f"{of}, spread over {len(held.lines)} lines of which none has as much as a twentieth."
    first = large[0]
    share = percent(first.bytes / held.total)
    number = "one block" if first.blocks == 1 else f"{first.blocks:,} blocks"
    what = f", {first.part}" if first.part else ""
    what += ", more and more of them throughout the history" if first.grows else ""
    sure = certain(first.kept)
    what += f", kept by {at(sure)}" if sure is not None else ""
    rest = f"; {len(large) - 1} more lines hold {percent(_rest(large) / held.total)}" if len(large) > 1 else ""
    rest = rest.replace("1 more lines hold", "one more line holds")
    where = f"{at(first.frame)} in {first.frame.function}"
    return f"{of}: {share} came from {where} ({human_bytes(first.bytes)} in {number}{what}){rest}."


def _rest(large: Sequence[Line]) -> int:
    return sum(line.bytes for line in large[1:])


def by_line(held: Held) -> list[str]:
    """The lines that hold most, as a fact."""
    return [
        f"{at(line.frame)} in {line.frame.function}: {human_bytes(line.bytes)} in {line.blocks:,}"
        for line in held.lines[:LISTED]
    ]


def called_from(held: Held) -> list[str]:
    """Callers of the lines that go on growing: nearer to what keeps their results, as a fact."""
    return [
        f"{at(line.frame)} from {' from '.join(f'{at(c)} in {c.function}' for c in line.callers)}"
        for line in held.lines
        if line.grows and line.callers
    ]


def stored_by(held: Held) -> list[str]:
    """The statements that may keep what those lines make, as a fact."""
    return listed(dict.fromkeys(k for line in held.lines if line.grows for k in line.kept))


def by_part(held: Held) -> list[str]:
    """What is told of all blocks, as a fact; nothing where no stack says anything."""
    if set(held.parts) <= {""}:
        return []
    return [f"{name or 'other'}: {human_bytes(n)}" for name, n in held.parts.items()]


def fixes_of(held: Held, large: Sequence[Line]) -> tuple[Fix, ...]:
    """Those of what holds most, then of the next; the most is not always on a line."""
    kept = tuple(fix_of(line.kept, 0) for line in large if line.grows)[:1]
    order = [large[0].part] if large else []
    order += [part for part, n in held.parts.items() if n >= held.total / 10]
    found = dict.fromkeys((*kept, *(fix for part in dict.fromkeys(order) for fix in _FIXES.get(part, ()))))
    return tuple(found)[:4]


def snapshot_of(m: OutOfDeviceMemory, snapshots: Iterable[MemorySnapshot]) -> MemorySnapshot | None:
    """The snapshot that shows the same refusal as a message of the log; None where none or several do."""
    fitting = [s for s in snapshots if s.refused and refused_alike(m, s)]
    return fitting[0] if len(fitting) == 1 else None


def refused_alike(m: OutOfDeviceMemory, s: MemorySnapshot) -> bool:
    """Whether both are about one refusal: the log has its size with two decimals, the snapshot as it was rounded up."""
    mine, rank = s.origin.rank, m.origin.rank
    if m.tried is None or (rank is not None and mine is not None and rank != mine):
        return False
    return abs(m.tried - s.refused[-1].asked) <= 0.01 * s.refused[-1].asked + 512
