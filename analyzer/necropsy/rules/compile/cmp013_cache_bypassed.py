"""Compiled code is kept out of the compiler's cache, or not found in it

What it means
    torch keeps compiled graphs in a cache on disk, so that the next start of the job does not
    compile them again. These graphs it does not keep, or does not find again: each start pays
    for them anew.

Why it happens
    The graph depends on what the cache cannot put into its key: a custom pass without a
    `uuid()`, a custom operator or higher-order operator that is not known as safe, an object
    that cannot be pickled. A graph that is kept is not found where its key differs: another
    size, another setting, another release, other source text.

How to confirm
    Start the job twice: the second start compiles these graphs as long as the first.
    `TORCH_LOGS=inductor,aot` prints the reason for each graph. The structured log (TORCH_TRACE)
    also says what each key was made of: given the logs of two runs, the parts that differ are named.

How to fix
    Make a custom pass a `torch._inductor.custom_graph_pass.CustomGraphPass` with a `uuid()`
    (torch 2.6 and later); register operators with `torch.library.custom_op`. Where neither
    helps, compile fewer and smaller graphs.

Limits
    A cache that was switched off is the user's choice and not told. What it costs is told by
    CMP012, where the log shows how long compilations took.

References
    - https://docs.pytorch.org/tutorials/recipes/torch_compile_caching_tutorial.html
    - torch/_inductor/codecache.py (`BypassFxGraphCache`), torch 2.5 to 2.13
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from posixpath import basename

from necropsy_parsers.messages.cache_bypass import CacheBypass
from necropsy_parsers.structured.kinds.caches import CacheEvent

from necropsy.claim import from_record, one_line
from necropsy.evidence.cache_bypasses import CacheBypasses
from necropsy.evidence.cache_events import CacheEvents, differing
from necropsy.evidence.compiles import CompileRow, Compiles
from necropsy.finding import Finding, Fix, Related, Severity
from necropsy.rule import rule

_CHOSEN = re.compile(r"FX graph cache is not enabled|[Cc]ache(?: is)? disabled|freezing enabled|cache_enabled")


@rule("CMP013", "cache-bypassed", Severity.NOTE)
def check(bypasses: CacheBypasses, events: CacheEvents | None, compiles: Compiles | None) -> Iterator[Finding]:
    """One note a reason, over all graphs, ranks and both caches; one for keys that differ between runs."""
    yield from _changed(events or (), compiles or ())
    groups: dict[str, list[CacheBypass]] = {}
    for row in bypasses:
        if row.reason and not _CHOSEN.search(row.reason):
            groups.setdefault(row.reason, []).append(row)
    for reason, rows in groups.items():
        graphs = len({(r.origin.rank, r.origin.pid, r.origin.compile_id) for r in rows})
        caches = " and ".join(dict.fromkeys(r.cache for r in rows))
        yield from_record(
            rows[0],
            f"{graphs} compiled graph{'s are' if graphs > 1 else ' is'} kept out of the {caches} "
            f"({one_line(reason, 160)}): each start of the job compiles {'them' if graphs > 1 else 'it'} again.",
            Severity.NOTE,
            ranks=tuple(sorted({r.origin.rank for r in rows if r.origin.rank is not None})),
            facts={"reason": one_line(reason, 300), "graphs": graphs},
            fixes=_fixes(reason),
            related=tuple(Related(r.anchor, f"{r.cache}, {r.origin.compile_id}".strip(", ")) for r in rows[1:4]),
            count=len(rows),
        )


def _changed(events: Iterable[CacheEvent], compiles: Iterable[CompileRow]) -> Iterator[Finding]:
    """A graph that two runs compiled under keys that differ, and the parts that make the difference."""
    functions = {(r.origin.pid, r.compile_id): (basename(r.file), r.function) for r in compiles if r.file}
    known: dict[tuple[object, ...], CacheEvent] = {}
    found: dict[tuple[str, ...], list[tuple[CacheEvent, CacheEvent]]] = {}
    for event in sorted(events, key=lambda e: e.seq):
        compile_id = event.origin.compile_id.split("_")[0]
        function = functions.get((event.origin.pid, compile_id))
        if event.state == "bypass" or function is None:
            continue
        earlier = known.setdefault((event.cache, event.origin.rank, compile_id, function), event)
        if event.state == "miss" and earlier.origin.pid != event.origin.pid and earlier.key != event.key:
            parts = differing(earlier, event)
            if parts and "gm" not in parts:  # another graph is another program
                found.setdefault(parts, []).append((earlier, event))
    for parts, pairs in found.items():
        earlier, event = pairs[0]
        yield from_record(
            event,
            f"{len(pairs)} compiled graph{'s are' if len(pairs) > 1 else ' is'} not found in the {event.cache}, though "
            f"the other run given compiled the same function: the key differs in {', '.join(parts[:3])}"
            f"{' and more' if len(parts) > 3 else ''}.",
            Severity.NOTE,
            facts={"differs in": list(parts[:12]), "graphs": len(pairs)},
            fixes=(Fix("Make these the same in both runs, if they are meant to be", "investigate"),),
            related=(Related(earlier.anchor, "the other run's key"),),
            subject=f"key {parts[0]}",
            count=len(pairs),
        )


def _fixes(reason: str) -> tuple[Fix, ...]:
    if "custom pass" in reason:
        text = "Give the pass a `uuid()`: make it a torch._inductor.custom_graph_pass.CustomGraphPass (since torch 2.6)"
        return (Fix(text, "code"),)
    if "Unsupported call_function target" in reason:
        return (Fix("Register the operator with `torch.library.custom_op`, which the cache knows as safe", "code"),)
    return ()
