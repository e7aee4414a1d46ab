"""Caches of several ranks compared: who compiles what others find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from necropsy_parsers.structured.kinds.caches import CacheEvent

from necropsy.claim import from_record
from necropsy.evidence.cache_events import differing
from necropsy.evidence.compiles import CompileRow
from necropsy.finding import Cost, Fact, Finding, Fix, Related, Severity
from necropsy.rules.compile._ranks import SAME, compilation, function_of, groups_of, named, subject

Graph = tuple[str, str]  # compile id and cache
Answers = dict[Graph, list[CacheEvent]]
_SHARE: Final = Fix("Let all nodes use one cache: TORCHINDUCTOR_CACHE_DIR on a shared disk", "env")
_ALIKE: Final = Fix("Make these the same on all ranks, if they are meant to be", "investigate")


def caches(events: Iterable[CacheEvent], rows: list[CompileRow]) -> Iterator[Finding]:
    """The first graph that some ranks found in the cache before others had compiled it."""
    by_rank: dict[int, Answers] = {}
    for e in events:
        graph = (e.origin.compile_id.split("_")[0], e.cache)
        by_rank.setdefault(e.origin.rank or 0, {}).setdefault(graph, []).append(e)
    shared = set.intersection(*(set(found) for found in by_rank.values())) if by_rank else set()
    for graph in sorted(shared):
        quick = [e for found in by_rank.values() for e in found[graph] if e.state == "hit"]
        answers = {rank: found[graph] for rank, found in by_rank.items()}
        slow = {rank: a[-1] for rank, a in answers.items() if _compiled(a) and any(_before(q, a[-1]) for q in quick)}
        if slow:
            yield _finding(graph, slow, quick, answers, rows)
            return


def _compiled(answers: list[CacheEvent]) -> bool:
    """Whether a rank compiled the graph: after a miss, or a bypass."""
    return not any(e.state == "hit" for e in answers)


def _before(hit: CacheEvent, miss: CacheEvent) -> bool:
    """Whether a rank found a graph before the other had compiled it: else it may be that one's that it found.

    A miss is written when the graph has been compiled.
    """
    a, b = hit.origin.time, miss.origin.time
    return a is not None and b is not None and a.clock == b.clock and a.seconds < b.seconds


def _finding(
    graph: Graph, slow: dict[int, CacheEvent], quick: list[CacheEvent], answers: dict[int, list[CacheEvent]],
    rows: list[CompileRow],
) -> Finding:  # fmt: skip
    ranks = tuple(sorted(slow))
    first = slow[ranks[0]]
    own = compilation(rows, graph[0], ranks[0])
    states = {rank: ", ".join(e.state for e in given) for rank, given in answers.items()}
    facts: dict[str, Fact] = {named(alike): states[alike[0]] for alike, _ in groups_of(states)[:6]}
    parts = differing(quick[0], first)
    if parts:
        facts["keys differ in"] = list(parts[:12])
    seconds = own.seconds if own is not None and own.seconds else 0.0
    why, fixes = "", (_SHARE,)
    if first.key and first.key == quick[0].key:
        why = ": the ranks do not share one cache"
    elif parts:
        why = f": the keys differ in {', '.join(parts[:3])}{' and more' if len(parts) > 3 else ''}"
        fixes = (SAME,) if any(p.startswith("example_inputs") for p in parts) else (_ALIKE,)
    return from_record(
        first,
        f"{subject(ranks)} {'compiles' if len(ranks) == 1 else 'compile'} graph {graph[0]}"
        f"{f' ({seconds:.1f} s)' if seconds else ''} that other ranks find in the {graph[1]}{why}; the others wait at "
        "their next collective.",
        Severity.WARNING,
        ranks=ranks,
        code=function_of(own),
        facts=facts,
        cost=Cost(int(seconds * 1e9), None, "estimated") if seconds else Cost(),
        fixes=fixes,
        related=(Related(quick[0].anchor, named([quick[0].origin.rank or 0])),),
        subject="caches",
    )
