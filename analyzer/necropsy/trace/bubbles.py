"""Long gaps on the device, grouped by what the host did in them."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from msgspec import Struct

from necropsy.finding import Place
from necropsy.trace.idle import LONG, gaps_of
from necropsy.trace.nesting import NONE, nearest
from necropsy.trace.profile import Profile
from necropsy.trace.rank import Mask, Rows

SAMPLES: Final = 9  # points of each gap at which the host is looked at; what holds at most of them is the cause
LEAST: Final = 3  # gaps of one cause (nsys-ai)
SHARE: Final = 0.05  # of the steps' time
# torch's own calls (backward, an optimizer's step) take milliseconds to launch what they launch; that is no pause.
PAUSE: Final = 5_000_000  # ns, on average

_BUILTIN: Final = re.compile(r"<(?:built-in|method|slot)[\w -]*? ['\"]?(\w+)['\"]?(?: of .*)?>", re.S)


class Bubbles(Struct, frozen=True):
    """Long gaps of one cause: rows of the gaps, and the ns of them that are the host's own.

    `doing` is what the user's function `place` was in, or the operator where no Python was
    recorded; "" for its own code.
    """

    place: Place | None
    doing: str
    rows: Rows
    steps: int
    ns: int
    longest: int


def bubbles_of(p: Profile) -> list[Bubbles]:
    """Groups of long gaps that come again, the costliest first."""
    if "bubbles" not in p.memo:
        p.memo["bubbles"] = _bubbles(p)
    found: list[Bubbles] = p.memo["bubbles"]
    return found


def in_bubbles(p: Profile) -> Mask:
    """Which gaps belong to a group that is told."""
    told = np.zeros(len(gaps_of(p).start), np.bool_)
    for group in bubbles_of(p):
        told[group.rows] = True
    return told


def _bubbles(p: Profile) -> list[Bubbles]:
    g = gaps_of(p)
    long = np.flatnonzero(g.own >= LONG)
    if len(long) < LEAST:
        return []
    users, doings, words, foreign = _causes(p, g.start[long], g.end[long])
    found = []
    for user, doing in np.unique(np.stack((users, doings), axis=1), axis=0).tolist():
        if user < 0 and doing < 0:
            continue  # nobody knows what the host did
        rows = long[(users == user) & (doings == doing)]
        group = _group(p, rows, user, words[doing] if doing >= 0 else "")
        pause = doing < 0 or foreign[doing] or (group is not None and group.ns >= PAUSE * len(rows))
        if group is not None and pause:
            found.append(group)
    return sorted(found, key=lambda b: -b.ns)


def _group(p: Profile, rows: Rows, user: int, doing: str) -> Bubbles | None:
    g = gaps_of(p)
    steps = len(np.unique(p.steps.of(g.start[rows])))
    ns = int(g.own[rows].sum())
    often = len(rows) >= LEAST and steps * 2 > len(p.steps)
    if not often or p.share(ns) < SHARE:
        return None
    return Bubbles(_place(p, rows, user), doing, rows, steps, ns, int(g.own[rows].max()))


def _place(p: Profile, rows: Rows, user: int) -> Place | None:
    """The user's function, resting on the middle of each gap at which it ran."""
    r, g = p.rank, gaps_of(p)
    if user < 0:
        return None
    middle = (g.start[rows] + g.end[rows]) // 2
    frame = r.frame_at(np.full(len(rows), r.main_thread, np.int32), middle)
    frame = np.where(frame >= 0, r.user_frame[np.maximum(frame, 0)], NONE)
    mine = (frame >= 0) & (r.frames["name"][np.maximum(frame, 0)] == user)
    if not mine.any():
        return p.place(int(np.flatnonzero(r.frames["name"] == user)[0]))
    return p.placed(frame[mine], middle[mine], g.own[rows][mine])


def _causes(p: Profile, start: Rows, end: Rows) -> tuple[Rows, Rows, list[str], list[bool]]:
    """(name of the user's frame, what it was in) of most of each gap's points, words of the latter, if not torch's."""
    points = (np.arange(SAMPLES) * 2 + 1) / (2 * SAMPLES)
    times = (start[:, None] + ((end - start)[:, None] * points)).astype(np.int64)
    flat = times.ravel()
    users, doings, words, foreign = _python(p, flat) if len(p.rank.frames) else _operators(p, flat)
    users, doings = users.reshape(times.shape), doings.reshape(times.shape)
    code = users * (len(words) + 1) + doings
    same = (code[:, :, None] == code[:, None, :]).sum(2)
    best = same.argmax(1)
    at = np.arange(len(start))
    return users[at, best], doings[at, best], words, foreign


def _python(p: Profile, times: Rows) -> tuple[Rows, Rows, list[str], list[bool]]:
    r = p.rank
    thread = np.full(len(times), r.main_thread, np.int32)
    frame = r.frame_at(thread, times)
    known = np.maximum(frame, 0)
    user = np.where(frame >= 0, r.user_frame[known], NONE)
    users = np.where(user >= 0, r.frames["name"][np.maximum(user, 0)], NONE)
    below = nearest(r.frame_nest.parent, _called_by_users(p))[known]
    in_own = (frame < 0) | (user == frame) | (below < 0)
    names = np.where(in_own, NONE, r.frames["name"][np.maximum(below, 0)])
    words, table, foreign = _words(p, names)
    return users.astype(np.int64), np.where(names >= 0, table[np.maximum(names, 0)], NONE), words, foreign


def _called_by_users(p: Profile) -> Mask:
    """Frames that one of the user's functions called, but for the user's own."""
    r = p.rank
    parent = r.frame_nest.parent
    users = r.user_frame == np.arange(len(r.frames))
    called: Mask = (parent >= 0) & users[np.maximum(parent, 0)] & ~users
    return called


def _words(p: Profile, names: Rows) -> tuple[list[str], Rows, list[bool]]:
    """(short words, table from a frame's name to its word, whether it is no function of torch's).

    An object's address makes one function many names.
    """
    words: dict[str, int] = {}
    foreign: list[bool] = []
    table = np.full(len(p.trace.names), NONE, np.int64)
    for n in np.unique(names[names >= 0]):
        name = p.rank.frame_names[int(n)]
        m = _BUILTIN.match(name.function)
        word = m[1] if m is not None else name.function
        if name.file.endswith(("torch/optim/optimizer.py", "torch/optim/lr_scheduler.py")) and word == "wrapper":
            word = "step"  # the profiler's hook around an optimizer's step
        if word not in words:
            words[word] = len(words)
            foreign.append(name.kind in ("package", "python") and not name.file.startswith(("torch/", "triton/")))
        table[n] = words[word]
    return list(words), table, foreign


def _operators(p: Profile, times: Rows) -> tuple[Rows, Rows, list[str], list[bool]]:
    r = p.rank
    found = np.full(len(times), NONE, np.int64)
    for thread in p.activity.threads if len(r.ops) else ():
        op = r.op_nest.innermost(np.full(len(times), thread, np.int32), times)
        found = np.where(found >= 0, found, op)
    top = r.op_nest.outermost(found) if len(r.ops) else found
    names = np.where(top >= 0, r.ops["name"][np.maximum(top, 0)] if len(r.ops) else NONE, NONE)
    kept = np.unique(names[names >= 0])
    index = np.searchsorted(kept, names) if len(kept) else names
    words = [p.trace.names[int(n)] for n in kept]
    return np.full(len(times), NONE, np.int64), np.where(names >= 0, index, NONE), words, [False] * len(words)
