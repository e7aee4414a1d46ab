"""Ranks compile different programs

What it means
    The ranks of a job should compile the same graphs in the same order. Here they do not: some
    compile what others do not, or their graphs start other collectives. At best the others
    wait; where the order of collectives differs, the job hangs or exchanges wrong tensors.

Why it happens
    Batches whose size differs between ranks (each size is a recompilation), code that branches
    on the rank or on the data, caches that only some nodes have, releases that differ.

How to confirm
    Compare the structured logs of the ranks (TORCH_TRACE): compile ids, `fx_graph_cache_*`,
    `inductor_collective_schedule`.

How to fix
    Give all ranks the same shapes (`drop_last`, padding), take branches on the rank out of the
    compiled function, and share one cache folder. `torch._dynamo.config.
    enable_compiler_collectives = True` lets ranks agree on which sizes are dynamic.

Limits
    Logs of two or more ranks of one run are needed. Ranks whose functions differ (stages of a
    pipeline) are meant to differ and are told as a note. Shapes of results differ rightly where
    work is split unevenly. A log that ends early is left out.

References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.dynamic_shapes_advanced_control_options.html
    - torch/_inductor/debug.py (`log_collective_schedule`), torch 2.9 to 2.13
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Final

from necropsy_parsers.records import Record
from necropsy_parsers.structured.kinds.caches import CacheEvent
from necropsy_parsers.structured.kinds.schedules import GraphPlan

from necropsy.claim import from_record, one_line
from necropsy.evidence.cache_events import CacheEvents, differing
from necropsy.evidence.compile_metrics import CompileMetrics
from necropsy.evidence.compiles import CompileRow, Compiles
from necropsy.evidence.graph_plans import GraphPlans
from necropsy.evidence.reading_issues import ReadingIssues
from necropsy.finding import Confidence, Fact, Finding, Fix, Place, Related, Severity
from necropsy.provenance.dynamo import plain_function
from necropsy.provenance.frames import is_library
from necropsy.rule import rule

Groups = list[tuple[tuple[int, ...], Hashable]]
_SAME: Final = Fix("Give all ranks the same shapes (drop_last=True, padding), and do not branch on the rank", "code")
_AGREE: Final = Fix("Set torch._dynamo.config.enable_compiler_collectives = True", "config")
_WAIT: Final = "wait_tensor"


@rule("CMP019", "ranks-diverge", Severity.WARNING, aliases=("rank-desync",))
def check(
    metrics: CompileMetrics, compiles: Compiles, caches: CacheEvents, plans: GraphPlans, issues: ReadingIssues
) -> Iterator[Finding]:
    """One finding a kind of difference, worst first."""
    cut = {i.input for i in issues if i.kind.startswith("structured/c")}
    yield from _reports(plans)
    rows = [r for r in compiles if r.origin.rank is not None and r.anchor.input not in cut]
    yield from _collectives([p for p in plans if p.anchor.input not in cut], rows)
    told = list(_compilations(rows))
    yield from told
    if not told:
        yield from _caches([e for e in caches if e.origin.rank is not None and e.anchor.input not in cut])
        yield from _tensors([p for p in plans if p.anchor.input not in cut])
    yield from _unwaited(plans)


def _groups(by_rank: Mapping[int, Hashable]) -> Groups:
    """The ranks that say the same, the largest group first."""
    found: dict[Hashable, list[int]] = {}
    for rank in sorted(by_rank):
        found.setdefault(by_rank[rank], []).append(rank)
    return sorted(((tuple(ranks), said) for said, ranks in found.items()), key=lambda g: (-len(g[0]), g[0]))


def named(ranks: Iterable[int]) -> str:
    """Ranks in words: `rank 3`, `ranks 0-2 and 5`."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts = [f"{a}" if a == b else f"{a}-{b}" for a, b in runs]
    one = len(parts) == 1 and "-" not in parts[0]
    return f"{'rank' if one else 'ranks'} {' and '.join(filter(None, (', '.join(parts[:-1]), parts[-1])))}"


def _subject(ranks: Iterable[int]) -> str:
    return named(ranks).capitalize()


def _reports(plans: GraphPlans) -> Iterator[Finding]:
    """What torch itself found."""
    for plan in [p for p in plans if p.kind == "report"][:1]:
        yield from_record(
            plan,
            f"torch compared the graphs of all ranks and found them different: {one_line(plan.told, 160)}.",
            Severity.ERROR,
            facts={"report": one_line(plan.told.replace("\n", " "), 600)},
            fixes=(_SAME,),
        )


def _collectives(plans: list[GraphPlan], rows: list[CompileRow]) -> Iterator[Finding]:
    """Graphs whose collectives differ between ranks."""
    for compile_id, by_rank in _by_graph(plans, "collectives").items():
        steps = {rank: tuple(s for plan in found for s in plan.steps) for rank, found in by_rank.items()}
        groups = _groups(steps)
        if len(groups) < 2:
            continue
        first, other = steps[groups[0][0][0]], steps[groups[1][0][0]]
        at, a, b = next(
            (n, a, b) for n, (a, b) in enumerate(zip_longest(first, other, fillvalue="nothing"), 1) if a != b
        )
        lead = by_rank[groups[1][0][0]][0]
        own = next((r for r in rows if (r.compile_id, r.origin.rank) == (compile_id, lead.origin.rank)), None)
        yield from_record(
            lead,
            f"The compiled graph {compile_id} starts other collectives on {named(groups[1][0])} than on "
            f"{named(groups[0][0])} (number {at}: {_short(b)} instead of {_short(a)}): the ranks wait for each other "
            "for ever, or exchange wrong tensors.",
            Severity.ERROR,
            confidence=Confidence.LIKELY,
            code=_place(own) if own is not None else (),
            ranks=tuple(sorted(r for ranks, _ in groups[1:] for r in ranks)),
            facts={named(ranks): f"{len(steps[ranks[0]])} collectives" for ranks, _ in groups[:6]},
            fixes=(_SAME, _AGREE),
            related=tuple(Related(by_rank[r[0]][0].anchor, f"{named(r)}") for r, _ in groups[:1]),
            subject=compile_id,
        )
        return  # what follows the first difference is its consequence


def _compilations(rows: list[CompileRow]) -> Iterator[Finding]:
    """Compile ids that only some ranks have."""
    ids: dict[int, dict[str, CompileRow]] = {}
    for row in rows:
        ids.setdefault(row.origin.rank or 0, {}).setdefault(row.compile_id, row)
    groups = _groups({rank: tuple(sorted(found)) for rank, found in ids.items()})
    if len(groups) < 2:
        return
    everywhere = set.intersection(*(set(found) for found in ids.values()))
    extra = [r for found in ids.values() for i, r in found.items() if i not in everywhere]
    first = min(extra, key=lambda r: r.seq)
    having = tuple(sorted(rank for rank, found in ids.items() if first.compile_id in found))
    lacking = tuple(sorted(set(ids) - set(having)))
    staged = any(
        len({(f[i].file, f[i].line) for f in ids.values() if i in f}) > 1 for i in everywhere
    )  # other functions under the same number: other programs, as in a pipeline
    name = plain_function(first.function) or "a function"
    again = "recompiles" if not first.compile_id.endswith("/0") else "compiles"
    facts: dict[str, Fact] = {named(ranks): _listed(ids[ranks[0]], everywhere) for ranks, _ in groups[:6]}
    yield from_record(
        _record(first),
        f"{_subject(having)} {again if len(having) == 1 else again[:-1]} `{name}` "
        f"({first.compile_id}) and {named(lacking)} {'does' if len(lacking) == 1 else 'do'} not: the others wait at "
        "their next collective, and graphs may no longer match.",
        Severity.NOTE if staged else Severity.WARNING,
        confidence=Confidence.POSSIBLE if staged else Confidence.LIKELY,
        code=_place(first),
        ranks=having,
        facts=facts,
        fixes=(_SAME, _AGREE),
        subject="compile ids",
    )


def _listed(found: Mapping[str, CompileRow], everywhere: set[str]) -> str:
    own = sorted(set(found) - everywhere)
    return f"{len(found)} compilations" + (f", of its own: {', '.join(own[:6])}" if own else "")


def _caches(events: list[CacheEvent]) -> Iterator[Finding]:
    """The first graph that some ranks found in the cache and others did not."""
    by_rank: dict[int, dict[tuple[str, str], list[CacheEvent]]] = {}
    for e in events:
        graph = (e.origin.compile_id.split("_")[0], e.cache)
        by_rank.setdefault(e.origin.rank or 0, {}).setdefault(graph, []).append(e)
    shared = set.intersection(*(set(found) for found in by_rank.values())) if by_rank else set()
    for graph in sorted(shared):
        states = {rank: tuple(e.state for e in found[graph]) for rank, found in by_rank.items()}
        slow = tuple(sorted(r for r, said in states.items() if "hit" not in said))
        if not slow or len(slow) == len(states):
            continue
        facts: dict[str, Fact] = {named(ranks): ", ".join(states[ranks[0]]) for ranks, _ in _groups(states)[:6]}
        quick = next(r for r in states if r not in slow)
        if parts := differing(by_rank[quick][graph][0], by_rank[slow[0]][graph][0]):
            facts["keys differ in"] = list(parts[:12])
        yield from_record(
            by_rank[slow[0]][graph][0],
            f"{_subject(slow)} {'does' if len(slow) == 1 else 'do'} not find graph {graph[0]} in the {graph[1]} where "
            "other ranks do: those wait until it is compiled.",
            Severity.WARNING,
            ranks=slow,
            facts=facts,
            fixes=(Fix("Let all nodes use one cache: TORCHINDUCTOR_CACHE_DIR on a shared disk", "env"),),
            subject="caches",
        )
        return


def _tensors(plans: list[GraphPlan]) -> Iterator[Finding]:
    """Graphs whose results have other shapes or types on some ranks."""
    for compile_id, by_rank in _by_graph(plans, "tensors").items():
        steps = {rank: tuple(s for plan in found for s in plan.steps) for rank, found in by_rank.items()}
        groups = _groups(steps)
        if len(groups) < 2:
            continue
        first, other = steps[groups[0][0][0]], steps[groups[1][0][0]]
        a, b = next((a, b) for a, b in zip_longest(first, other, fillvalue="nothing") if a != b)
        yield from_record(
            by_rank[groups[1][0][0]][0],
            f"Graph {compile_id} computes other tensors on {named(groups[1][0])} than on {named(groups[0][0])} "
            f"({one_line(b, 60)} instead of {one_line(a, 60)}): if they are exchanged, the job hangs or fails.",
            Severity.NOTE,
            confidence=Confidence.POSSIBLE,
            ranks=groups[1][0],
            facts={named(ranks): f"{len(steps[ranks[0]])} operations" for ranks, _ in groups[:6]},
            fixes=(_SAME,),
            subject="tensors",
        )
        return


def _unwaited(plans: Iterable[GraphPlan]) -> Iterator[Finding]:
    """Graphs that start more collectives than they wait for."""
    for plan in plans:
        waits = sum(_WAIT in step for step in plan.steps)
        started = len(plan.steps) - waits
        if plan.kind == "collectives" and waits and waits < started:
            yield from_record(
                plan,
                f"Graph {plan.origin.compile_id} starts {started} collectives and waits for {waits}: the results of "
                "the others must be waited for outside, or are read too early.",
                Severity.NOTE,
                confidence=Confidence.POSSIBLE,
                facts={"collectives": started, "waits": waits},
                subject="waits",
            )
            return


def _by_graph(plans: Iterable[GraphPlan], kind: str) -> dict[str, dict[int, list[GraphPlan]]]:
    """Compile id -> rank -> plans, of graphs that two or more ranks have."""
    found: dict[str, dict[int, list[GraphPlan]]] = {}
    for p in plans:
        if p.kind == kind and p.origin.rank is not None:
            compile_id = p.origin.compile_id.split("_")[0]
            found.setdefault(compile_id, {}).setdefault(p.origin.rank, []).append(p)
    return {i: by_rank for i, by_rank in sorted(found.items()) if len(by_rank) > 1}


def _short(name: str) -> str:
    """`torch.ops._c10d_functional.all_reduce_.default` as `all_reduce_`."""
    return name.removesuffix(".default").rpartition(".")[2] or name


def _record(row: CompileRow) -> Record:
    return Record(row.anchor, origin=row.origin, seq=row.seq, attempt=row.attempt)


def _place(row: CompileRow) -> tuple[Place, ...]:
    if not row.file or is_library(row.file):
        return ()
    return (Place(row.file, row.line, None, plain_function(row.function), "", "function", "compilation"),)
