"""What a trace saw directly inside calls of the user's functions, in order: the input of statement resolution."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from necropsy.provenance.dynamo import plain_function, resumed_at
from necropsy.provenance.statements.catalogue import HOUSEKEEPING
from necropsy.provenance.statements.functions import Seen
from necropsy.provenance.statements.sequence import FRAME, MODULE, OP, Event
from necropsy.trace.names import parsed
from necropsy.trace.nesting import NONE, Nest
from necropsy.trace.profile import Profile
from necropsy.trace.rank import RankTrace, Rows

_BUILTIN: Final = re.compile(r"<(?:built-in )?(?:method|function|slot wrapper) '?(\w+)'?")
_NUMBER: Final = re.compile(r"_\d+$")
# What an optimizer's `step` is called in a trace (torch/optim/optimizer.py and lr_scheduler.py wrap it, 2.0 to 2.13).
_STEPS: Final = ("wrapper", "wrapped", "with_counter")
MOST_EVENTS: Final = 20_000  # of one call; a longer one is not laid over its source


class Insides:
    """The events of a trace by the Python frame that they are directly under."""

    def __init__(self, p: Profile) -> None:
        self._r = r = p.rank
        parent, frames = _nested(r)
        outer = r.op_nest.parent
        bare = (frames >= 0) & ((outer < 0) | (frames[np.maximum(outer, 0)] != frames))
        ops = np.flatnonzero(bare)
        kids = np.flatnonzero(parent >= 0)
        owner = np.concatenate((parent[kids], frames[ops]))
        start = np.concatenate((r.frames["start"][kids], r.ops["start"][ops]))
        self._end = np.concatenate((r.frames["end"][kids], r.ops["end"][ops]))
        self._name = np.concatenate((r.frames["name"][kids], r.ops["name"][ops]))
        self._op = np.arange(len(owner)) >= len(kids)
        self._start, self._order = start, np.lexsort((start, owner))
        self._owner = owner[self._order]
        self._events: dict[tuple[int, bool], Event] = {}

    def of(self, frame: int) -> tuple[list[Event], Rows, Rows]:
        """Events directly under a frame with their starts and ends."""
        low, high = np.searchsorted(self._owner, (frame, frame + 1))
        rows = self._order[low:high][:MOST_EVENTS]
        return [self._event(int(i)) for i in rows], self._start[rows], self._end[rows]

    def _event(self, row: int) -> Event:
        key = int(self._name[row]), bool(self._op[row])
        if key not in self._events:
            name = self._r.trace.names[key[0]]
            self._events[key] = Event(OP, name.rpartition("::")[2]) if key[1] else _of_frame(name)
        return self._events[key]


def _nested(r: RankTrace) -> tuple[Rows, Rows]:
    """(parent of each frame, frame of each operator) without built-in functions whose return was lost.

    Compiled code can return past a built-in function that called it (torch 2.11: autograd's
    `apply`); it then stays open to the trace's end and seems to enclose all that follows.
    """
    f = r.frames
    last = np.zeros(int(f["thread"].max()) + 1 if len(f) else 0, np.int64)
    np.maximum.at(last, f["thread"], f["end"])
    builtin = np.array([n for n, name in r.frame_names.items() if name.kind == "builtin"], np.int64)
    lost = np.isin(f["name"], builtin) & (f["end"] >= last[f["thread"]])
    if not lost.any():
        return r.frame_nest.parent, r.frame_at(r.ops["thread"], r.ops["start"])
    kept = np.flatnonzero(~lost)
    nest = Nest(f["start"][kept], f["end"][kept], f["thread"][kept])
    parent = np.full(len(f), NONE, np.int64)
    for rows, found in ((kept, nest.parent), (np.flatnonzero(lost), nest.innermost(f["thread"], f["start"])[lost])):
        parent[rows] = np.where(found >= 0, kept[np.maximum(found, 0)], NONE)
    within = nest.innermost(r.ops["thread"], r.ops["start"])
    return parent, np.where(within >= 0, kept[np.maximum(within, 0)], NONE)


def _of_frame(name: str) -> Event:
    f = parsed(name)
    if f.kind == "module":
        return Event(MODULE, _NUMBER.sub("", f.function))
    if f.kind == "builtin":
        m = _BUILTIN.match(name)
        plain = m[1] if m is not None else name
        return Event(FRAME, f"<{plain}>" if plain in HOUSEKEEPING else plain)
    if f.function in _STEPS and f.file.replace("\\", "/").startswith("torch/optim/"):
        return Event(FRAME, "step")
    return Event(FRAME, f.function if f.function.startswith("<") else f.function.rpartition(".")[2])


def insides(p: Profile) -> Insides:
    """The events of a trace, sorted once."""
    if "insides" not in p.memo:
        p.memo["insides"] = Insides(p)
    found: Insides = p.memo["insides"]
    return found


def call_of(p: Profile, call: int) -> tuple[Seen, bool]:
    """A call's function, and whether its end was recorded, too."""
    r = p.rank
    f = r.frame_names[int(r.frames["name"][call])]
    if "opened" not in p.memo:
        p.memo["opened"] = opened(p)
    mine = r.frames["thread"] == r.frames["thread"][call]
    ended = int(r.frames["end"][call]) < int(r.frames["end"][mine].max())
    return Seen(plain_function(f.function), f.line or 0, call not in p.memo["opened"]), ended


def opened(p: Profile) -> frozenset[int]:
    """Frames that were on their thread's stack when the profiler started: each begins inside the one before it.

    The innermost of them is followed by a frame that was really entered, so that the last of the chain is not one.
    """
    r = p.rank
    found: set[int] = set()
    order = np.lexsort((-r.frames["end"], r.frames["start"], r.frames["thread"]))
    parent, thread = r.frame_nest.parent, r.frames["thread"]
    for t in np.unique(thread):
        chain: list[int] = []
        for row in order[thread[order] == t]:
            if parent[row] != (chain[-1] if chain else NONE):
                break
            chain.append(int(row))
        found |= set(chain[:-1])
    return frozenset(found)


def functions_of(p: Profile) -> dict[str, set[Seen]]:
    """File -> the functions of it that the trace saw, with their lines; resumed ones are the compiler's own."""
    r = p.rank
    open_ = opened(p)
    found: dict[str, set[Seen]] = {}
    entered: NDArray[Any] = np.ones(len(r.frames), np.bool_)
    entered[list(open_)] = False
    for name in np.unique(r.frames["name"][entered]):
        f = r.frame_names[int(name)]
        if f.kind in ("user", "package") and f.line is not None and resumed_at(f.function) is None:
            found.setdefault(f.file, set()).add(Seen(f.function, f.line))
    for row in open_:
        f = r.frame_names[int(r.frames["name"][row])]
        if f.kind in ("user", "package") and f.line is not None and resumed_at(f.function) is None:
            found.setdefault(f.file, set()).add(Seen(plain_function(f.function), f.line, False))
    return found
