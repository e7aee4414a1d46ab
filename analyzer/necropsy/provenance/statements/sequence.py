"""Lays the events of one function call over the call sites of its source: which sites can each event be?

All ways through the function that show these events in this order are followed at once, as
sets of nodes (bits of an int); the answer for an event are the sites at which it is on any
way that gets through to the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from necropsy.provenance.statements.catalogue import GENERATORS, Site
from necropsy.provenance.statements.graph import Graph

# Frames that Python makes beside the calls of the source (attribute hooks, constructors, context managers), and
# those of built-in housekeeping (`<append>`).
_BESIDE: Final = re.compile(
    r"__(?!(?:next|iter|format|str|repr|bool)__$)\w+__$|_\w+_dispatcher$|<(?!(?:list|set|dict)comp>|lambda>)\w+>$"
)
MODULE, FRAME, OP = "module", "frame", "op"


class Event(Struct, frozen=True):
    """Something directly under a function's frame: a module's or another frame, or an operator with none."""

    kind: str
    name: str  # a module's class, a function's or a method's name, an operator's without `aten::`


class Laid:
    """Graph and vocabulary of a function: `sites_of` answers for one call of it."""

    def __init__(self, graph: Graph, shown: Iterable[Event]) -> None:
        self._graph = graph
        self._shown = frozenset(shown)
        self._frames = {n for s in graph.sites if s is not None for n in s.names}
        self._may: dict[Event, int] = {}
        after = [list(a) for a in graph.after]
        for node, before, behind in graph.around:
            site = graph.sites[node]
            assert site is not None
            if not self._shows(site):
                after[before].append(behind)
        self._emits = sum(1 << i for i, s in enumerate(graph.sites) if s is not None)
        self._closure = _closures(after, graph.sites)

    def _shows(self, site: Site) -> bool:
        """Whether calls of such names leave anything in this trace: of methods of C types not all do."""
        if site.wild:
            known = {c for s in self._graph.sites if s is not None and s.classes for c in s.classes}
            return any(e.kind == MODULE and e.name not in known for e in self._shown)
        return any(
            (e.kind == FRAME and e.name in site.names)
            or (e.kind == OP and e.name in site.ops)
            or (e.kind == MODULE and bool(site.classes) and e.name in (site.classes or ()))
            for e in self._shown
        )

    def stray(self, event: Event) -> bool:
        """Whether no site has this name: what a decorator named, or what nobody called in the source."""
        return event.kind == FRAME and event.name not in self._frames

    def beside(self, event: Event) -> bool:
        """Whether an event says nothing about where the call is."""
        if event.kind == OP:
            return not any(s is not None and event.name in s.ops for s in self._graph.sites)
        # A generator that is thrown away before its end closes those inside it: their frames show once more.
        closed = event.name in GENERATORS and self.stray(event)
        return event.kind == FRAME and (closed or _BESIDE.match(event.name) is not None)

    def _mask(self, event: Event) -> int:
        if event not in self._may:
            stray = self.stray(event)
            self._may[event] = sum(
                1 << i for i, s in enumerate(self._graph.sites) if s is not None and _can(s, event, stray)
            )
        return self._may[event]

    def sites_of(self, events: Sequence[Event], begin: int | None = None, *, whole: bool = True) -> list[list[int]]:
        """For each event the nodes that it can be ([] for those that say nothing); [] if the source does not fit.

        `begin` is the line at which the events begin, for a call that was under way; `whole`
        says whether the last of them was followed by the function's end.
        """
        closure, emits = self._closure, self._emits
        if self._graph.resumes:
            now, whole = _union(closure, (1 << len(closure)) - 1), False
        else:
            now = closure[self._graph.entry] if begin is None else self._under_way(begin)
        forward: list[int] = []
        for event in events:
            if self.beside(event):
                forward.append(0)
                continue
            hit = now & self._mask(event) & emits
            forward.append(hit)
            now = _union(closure, hit)
            if not now:
                return []
        accept = 1 << self._graph.exit if whole else ~0
        if not now & accept:
            return []
        return self._kept(events, forward, accept)

    def _kept(self, events: Sequence[Event], forward: list[int], accept: int) -> list[list[int]]:
        """Backwards: only what leads on to the end."""
        goal = accept  # nodes of which one must be in the closure behind an event
        found: list[list[int]] = [[] for _ in events]
        for i in range(len(events) - 1, -1, -1):
            if not forward[i]:
                continue
            alive = [n for n in _bits(forward[i]) if self._closure[n] & goal]
            found[i] = alive
            goal = sum(1 << n for n in alive)
        return found

    def _under_way(self, line: int) -> int:
        """Where a call can be whose line `line` runs."""
        sites = self._graph.sites
        here = [i for i, s in enumerate(sites) if s is not None and s.line == line]
        return _union(self._closure, sum(1 << i for i in here)) | sum(1 << i for i in here)


def _can(site: Site, event: Event, stray: bool) -> bool:
    if event.kind == OP:
        return event.name in site.ops
    if event.kind == MODULE:
        return site.classes is None or event.name in site.classes
    return event.name in site.names or site.wild or (stray and site.call)


def _closures(after: list[list[int]], sites: list[Site | None]) -> list[int]:
    """For each node those that can come next: reached over nodes without sites, the first with one included."""
    found = []
    for start in range(len(after)):
        seen, todo = 0, list(after[start])
        while todo:
            n = todo.pop()
            if seen >> n & 1:
                continue
            seen |= 1 << n
            if sites[n] is None:
                todo += after[n]
        found.append(seen)
    return found


def _union(closure: list[int], nodes: int) -> int:
    out = 0
    for n in _bits(nodes):
        out |= closure[n]
    return out


def _bits(mask: int) -> Iterable[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
