"""Whether dumps can show a hang at all: those of a job that runs look like one.

Ranks of a running job are never at the same place. Two things tell such dumps from those
of a hang: they contradict each other, since a collective that a rank has not entered
cannot be complete on another (then they were taken one after the other), or the files
were written when nobody had waited for long.
"""

from __future__ import annotations

from typing import Final

from necropsy.evidence._flight_state import is_done
from necropsy.evidence._flight_waits import Waits, comparable, together

_LONG_NS: Final = 1_000_000_000  # collectives take milliseconds; the shortest time limits are seconds


def why_running(found: Waits) -> str:
    """In a clause, why the dumps need not be of a hang; "" if nothing speaks against it."""
    return _apart(found) or _young(found)


def _apart(found: Waits) -> str:
    """A collective that one rank completed and another has not entered: their dumps are of different moments."""
    if found.job.active_only:
        return ""
    for group, told in enumerate(found.job.groups):
        inside = [r for r in told.members if r in found.states and group in found.states[r].reached]
        if len(inside) < 2 or not comparable(found.job, group):
            continue
        last = {r: found.states[r].reached[group].last for r in inside if found.states[r].dump.whole}
        behind = min(last, key=lambda r: last[r], default=None)
        if behind is None:
            continue
        for rank in inside:
            if last.get(rank, -1) > last[behind] and (op := _completed_past(found, rank, group, last[behind])):
                return f"rank {rank} had completed {op} of {told}, which rank {behind} had not entered yet"
    return ""


def _completed_past(found: Waits, rank: int, group: int, last: int) -> str:
    """A collective after `last` that a rank completed; not by aborting it, after which nothing is enqueued."""
    state, ids = found.states[rank], found.job.ids[rank]
    e = state.dump.entries
    newest = e.created[-1]
    for i in range(len(e) - 1, -1, -1):
        if ids[e.group[i]] != group or e.p2p[i] >= 0:
            continue
        if e.sequence[i] <= last:
            break
        op = state.call(i).op
        went_on = 0 < e.completed[i] < newest or (not e.completed[i] and not state.idle)
        if together(op) and is_done(e.state[i]) and went_on:
            return f"{op} #{e.sequence[i]}"
    return ""


def _young(found: Waits) -> str:
    """How long the longest wait had lasted when its dump was written, if that is no time."""
    ages = [
        found.states[r].dump.written - found.states[r].dump.entries.created[e]
        for w in found.waits
        for r, e in w.waiting.items()
    ]
    if not ages or min(ages) < 0 or max(ages) >= _LONG_NS:
        return ""
    return f"the longest wait had lasted {max(ages) / 1e9:.3f} s when the dumps were written"
