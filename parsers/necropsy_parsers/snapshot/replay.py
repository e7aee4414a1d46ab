"""The peak of a history: its events are undone from the end, where the live blocks are known."""

from __future__ import annotations

from necropsy_parsers.snapshot.model import ALLOC, FREE_COMPLETED, FREE_REQUESTED, History, Peak
from necropsy_parsers.snapshot.reading import summed

Live = dict[int, tuple[int, int]]  # address -> (bytes, stack)


def peak_of(history: History, live: Live) -> Peak | None:
    """When most was allocated, and by whom; None without a history.

    A block counts until its free is completed, or requested where completions were not
    recorded (`skip_actions`). A free of a block whose allocation is older than the history
    has no stack.
    """
    freed = FREE_COMPLETED if FREE_COMPLETED in history.action else FREE_REQUESTED
    if not len(history) or ALLOC not in history.action:
        return None
    makers = _makers(history, freed)
    now = sum(size for size, _ in live.values())
    most, at = now, len(history)
    for i in range(len(history) - 1, -1, -1):
        if history.action[i] == ALLOC:
            now -= history.size[i]
        elif history.action[i] == freed:
            now += history.size[i]
        if now > most:
            most, at = now, i
    blocks = _undone(history, dict(live), at, freed, makers)
    event = max(at - 1, 0)
    return Peak(most, event, history.time[event], summed(blocks.values()))


def _makers(history: History, freed: int) -> dict[int, int]:
    """Event of a free -> the stack that allocated what it frees."""
    found, open_ = {}, dict[int, int]()
    for i, action in enumerate(history.action):
        if action == ALLOC:
            open_[history.address[i]] = history.stack[i]
        elif action == freed:
            found[i] = open_.pop(history.address[i], 0)
    return found


def _undone(history: History, live: Live, at: int, freed: int, makers: dict[int, int]) -> Live:
    for i in range(len(history) - 1, at - 1, -1):
        if history.action[i] == ALLOC:
            live.pop(history.address[i], None)
        elif history.action[i] == freed:
            live[history.address[i]] = (history.size[i], makers[i])
    return live
