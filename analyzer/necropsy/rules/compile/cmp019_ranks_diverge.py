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
    pipeline) are meant to differ and are told as a note. Which ranks exchange with each other
    the logs do not say: other shapes are a warning only where a collective needs them alike and
    a rank is alone with its own; shapes are in the log with `torch._inductor.config.log_tlparse`
    (torch 2.9 and later). A graph that a rank finds in the cache after another rank has compiled
    it is no difference. A log that ends early is left out.

References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.dynamic_shapes_advanced_control_options.html
    - torch/_inductor/debug.py (`log_collective_schedule`), torch 2.9 to 2.13
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from necropsy_parsers.records import Record

from necropsy.claim import from_record, one_line
from necropsy.evidence.cache_events import CacheEvents
from necropsy.evidence.compile_metrics import CompileMetrics
from necropsy.evidence.compiles import CompileRow, Compiles
from necropsy.evidence.graph_plans import GraphPlans
from necropsy.evidence.reading_issues import ReadingIssues
from necropsy.finding import Confidence, Fact, Finding, Severity
from necropsy.provenance.dynamo import plain_function
from necropsy.rule import rule
from necropsy.rules.compile._rank_caches import caches as of_caches
from necropsy.rules.compile._rank_plans import collectives, tensors, unwaited
from necropsy.rules.compile._ranks import AGREE, SAME, function_of, groups_of, named, subject


@rule("CMP019", "ranks-diverge", Severity.WARNING, aliases=("rank-desync",))
def check(
    metrics: CompileMetrics, compiles: Compiles, caches: CacheEvents, plans: GraphPlans, issues: ReadingIssues
) -> Iterator[Finding]:
    """One finding a kind of difference, worst first."""
    cut = {i.input for i in issues if i.kind.startswith("structured/c")}
    yield from _reports(plans)
    rows = [r for r in compiles if r.origin.rank is not None and r.anchor.input not in cut]
    whole = [p for p in plans if p.anchor.input not in cut]
    yield from collectives(whole, rows)
    told = list(_compilations(rows))
    yield from told
    if not told:
        yield from of_caches([e for e in caches if e.origin.rank is not None and e.anchor.input not in cut], rows)
        yield from tensors(whole, rows)
    yield from unwaited(plans, rows)


def _reports(plans: GraphPlans) -> Iterator[Finding]:
    """What torch itself found."""
    for plan in [p for p in plans if p.kind == "report"][:1]:
        yield from_record(
            plan,
            f"torch compared the graphs of all ranks and found them different: {one_line(plan.told, 160)}.",
            Severity.ERROR,
            facts={"report": one_line(plan.told.replace("\n", " "), 600)},
            fixes=(SAME,),
        )


def _compilations(rows: list[CompileRow]) -> Iterator[Finding]:
    """Compile ids that only some ranks have."""
    ids: dict[int, dict[str, CompileRow]] = {}
    for row in rows:
        ids.setdefault(row.origin.rank or 0, {}).setdefault(row.compile_id, row)
    groups = groups_of({rank: tuple(sorted(found)) for rank, found in ids.items()})
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
        f"{subject(having)} {again if len(having) == 1 else again[:-1]} `{name}` "
        f"({first.compile_id}) and {named(lacking)} {'does' if len(lacking) == 1 else 'do'} not: the others wait at "
        "their next collective, and graphs may no longer match.",
        Severity.NOTE if staged else Severity.WARNING,
        confidence=Confidence.POSSIBLE if staged else Confidence.LIKELY,
        code=function_of(first),
        ranks=having,
        facts=facts,
        fixes=(SAME, AGREE),
        subject="compile ids",
    )


def _listed(found: Mapping[str, CompileRow], everywhere: set[str]) -> str:
    own = sorted(set(found) - everywhere)
    return f"{len(found)} compilations" + (f", of its own: {', '.join(own[:6])}" if own else "")


def _record(row: CompileRow) -> Record:
    return Record(row.anchor, origin=row.origin, seq=row.seq, attempt=row.attempt)
