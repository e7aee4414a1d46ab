"""Lines whose blocks stay while more of them come, over the whole history of a memory snapshot.

What is alive when a snapshot is taken does not tell: at the end of a program all is freed, and at a peak most of what
a line holds is of the step that runs. So blocks are judged by how long they lived: one is kept if it outlives the last
allocation of its line.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from necropsy_parsers.records import Frame
from necropsy_parsers.snapshot.model import ALLOC, FREE_COMPLETED, FREE_REQUESTED, History, MemorySnapshot, Stack

from necropsy.provenance.holders import BACKWARD, NO_STACK, OPTIMIZER, WEIGHTS, part_of, user_frames

GROWN: Final = 8  # blocks from which a line's growth is told
SPREAD: Final = 0.5  # part of the history over which they must have been allocated,
RECENT: Final = 0.9  # the last of them behind this part of it
PASSES: Final = 3  # backward passes or optimizer steps between them, from which they are of several steps
LASTED: Final = 3  # a block that lived as long as this many others took to come was kept, too;
DROPPED: Final = 0.25  # with this many of those, compared with what stayed, the line's results come and go
OF_LINE: Final = 0.5  # part of what stays of a line from which it is what its memory goes to
GRAIN: Final = 512  # torch's allocator rounds a block up to a multiple of this (kMinBlockSize)


class Growing(Struct, frozen=True):
    """A line of the user's whose blocks stay: how many, their bytes as the allocator rounds them, and since when.

    `frames` are the user's of its commonest stack, the innermost first; `each` are the bytes of one block (0: they
    differ); `seconds` from the first to the last of them (0: not told); `passes`: that steps of training lie between.
    `most`: that they are most of what stays of the line, the last step's own results included.
    """

    frames: tuple[Frame, ...]
    blocks: int
    bytes: int
    each: int
    seconds: float
    passes: bool
    most: bool

    @property
    def frame(self) -> Frame:
        """The line."""
        return self.frames[0]

    @property
    def daily(self) -> float:
        """Bytes in a day at this rate; 0 where times are not told."""
        return self.bytes / self.seconds * 86_400 if self.seconds > 0 else 0.0


class _Block(Struct, frozen=True):
    """Events that allocated and freed a block (the history's length: never), its bytes and stack."""

    born: int
    died: int
    bytes: int
    stack: int


def growing(s: MemorySnapshot) -> list[Growing]:
    """Lines that go on holding more, most bytes first."""
    blocks = _blocks(s.history)
    if len(blocks) < GROWN:
        return []
    lines: dict[Frame, list[_Block]] = {}
    users = [tuple(user_frames(stack)) for stack in s.stacks]
    parts = [part_of(stack) for stack in s.stacks]
    for b in blocks:
        if users[b.stack] and parts[b.stack] not in (WEIGHTS, OPTIMIZER):
            lines.setdefault(users[b.stack][0], []).append(b)
    passes = [b.born for b in blocks if _is_pass(s.stacks[b.stack], parts[b.stack])]
    found = [g for line in lines.values() if (g := _judged(s, line, blocks, passes, users)) is not None]
    return sorted(found, key=lambda g: -g.bytes)


def _blocks(h: History) -> list[_Block]:
    """The blocks whose allocation the history has, in order."""
    freed = FREE_COMPLETED if FREE_COMPLETED in h.action else FREE_REQUESTED
    open_: dict[int, int] = {}
    ends: dict[int, int] = {}
    for i, action in enumerate(h.action):
        if action == ALLOC:
            open_[h.address[i]] = i
        elif action == freed and (born := open_.pop(h.address[i], None)) is not None:
            ends[born] = i
    never = len(h)
    return [
        _Block(i, ends.get(i, never), h.size[i], h.stack[i]) for i, action in enumerate(h.action) if action == ALLOC
    ]


def _is_pass(stack: Stack, part: str) -> bool:
    """Whether an allocation is of a backward pass or of an optimizer's step: a step of training has both."""
    if part in (BACKWARD, NO_STACK, OPTIMIZER):
        return True
    return any(f.function in ("_engine_run_backward", "backward") and "torch" in f.file for f in stack)


def _judged(
    s: MemorySnapshot, line: Sequence[_Block], every: Sequence[_Block], passes: Sequence[int],
    users: Sequence[tuple[Frame, ...]],
) -> Growing | None:  # fmt: skip
    last = line[-1].born
    stays = [b for b in line if b.died > last]
    if len(stays) < GROWN:
        return None
    # What the last step made is alive whether it is kept or not: what came before its line's last pass counts.
    at = bisect_left(passes, last)
    half = (last - stays[0].born) / (len(stays) - 1) / 2
    until = passes[at - 1] if at and passes[at - 1] > stays[0].born else last - half
    kept = [b for b in stays if b.born < until]
    if len(kept) < GROWN or not _throughout([b.born for b in kept], every[-1].born + 1):
        return None
    gap = (kept[-1].born - kept[0].born) / (len(kept) - 1)
    came_and_went = sum(b.died <= last and b.died - b.born >= LASTED * gap for b in line)
    if came_and_went > DROPPED * len(kept):
        return None
    births = [b.born for b in kept]
    between = {bisect_left(births, at) for at in passes if births[0] < at < births[-1]}
    several = len(between) >= PASSES
    if not several and (between or not _turned_over(every, kept)):
        return None
    sizes = {_rounded(b.bytes) for b in kept}
    commonest = Counter(b.stack for b in kept).most_common(1)[0][0]
    time = s.history.time
    return Growing(
        users[commonest], len(kept), sum(_rounded(b.bytes) for b in kept), sizes.pop() if len(sizes) == 1 else 0,
        max(0, time[births[-1]] - time[births[0]]) / 1e6, several,
        sum(b.bytes for b in kept) >= OF_LINE * sum(b.bytes for b in stays),
    )  # fmt: skip


def _throughout(births: Sequence[int], length: int) -> bool:
    """Whether allocations are spread over a history: those of one step, or of the start, stand together.

    The last one may be as long ago as the next takes to come.
    """
    first, last = births[0], births[-1]
    middle = sum(first + (last - first) / 4 < e < last - (last - first) / 4 for e in births)
    longest = max(b - a for a, b in pairwise(births))
    due = last + min(1.5 * longest, (1 - SPREAD) / 2 * length)
    return last - first >= SPREAD * length and due >= RECENT * length and middle >= len(births) / 4


def _turned_over(every: Sequence[_Block], kept: Sequence[_Block]) -> bool:
    """Whether nearly all else that was allocated meanwhile is gone: else the history may show a single pass only."""
    first, last, own = kept[0].born, kept[-1].born, {b.born for b in kept}
    others = [b for b in every if first < b.born < last and b.born not in own]
    gone = sum(b.bytes for b in others if b.died <= last)
    return gone >= 0.8 * sum(b.bytes for b in others) > 0


def _rounded(size: int) -> int:
    return -(-size // GRAIN) * GRAIN
