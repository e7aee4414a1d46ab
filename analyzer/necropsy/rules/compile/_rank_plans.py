"""Graphs of several ranks compared: the collectives that they start, the tensors that they compute, missing waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

from necropsy_parsers.patterns import lazily
from necropsy_parsers.structured.kinds.schedules import GraphPlan

from necropsy.claim import from_record, one_line
from necropsy.evidence.compiles import CompileRow
from necropsy.finding import Confidence, Finding, Related, Severity
from necropsy.rules.compile._ranks import AGREE, SAME, Groups, compilation, function_of, groups_of, named

_WAIT: Final = "wait_tensor"
_UNNAMED: Final = "?"  # a collective for which torch has no name: whether it is waited for cannot be told
# Collectives for which every rank of a group passes tensors of the same shape; all_to_all and sends need not.
_EVEN: Final = lazily(r"all_reduce|reduce_scatter|all_gather|broadcast")


def collectives(plans: list[GraphPlan], rows: list[CompileRow]) -> Iterator[Finding]:
    """Graphs whose collectives differ between ranks."""
    for compile_id, by_rank in by_graph(plans, "collectives").items():
        steps = {rank: tuple(s for plan in found for s in plan.steps) for rank, found in by_rank.items()}
        groups = groups_of(steps)
        if len(groups) < 2:
            continue
        first, other = steps[groups[0][0][0]], steps[groups[1][0][0]]
        at, a, b = next(
            (n, a, b) for n, (a, b) in enumerate(zip_longest(first, other, fillvalue="nothing"), 1) if a != b
        )
        lead = by_rank[groups[1][0][0]][0]
        yield from_record(
            lead,
            f"The compiled graph {compile_id} starts other collectives on {named(groups[1][0])} than on "
            f"{named(groups[0][0])} (number {at}: {short(b)} instead of {short(a)}): the ranks wait for each other "
            "for ever, or exchange wrong tensors.",
            Severity.ERROR,
            confidence=Confidence.LIKELY,
            code=function_of(compilation(rows, compile_id, lead.origin.rank)),
            ranks=tuple(sorted(r for ranks, _ in groups[1:] for r in ranks)),
            facts={named(ranks): f"{len(steps[ranks[0]])} collectives" for ranks, _ in groups[:6]},
            fixes=(SAME, AGREE),
            related=tuple(Related(by_rank[r[0]][0].anchor, f"{named(r)}") for r, _ in groups[:1]),
            subject=compile_id,
        )
        return  # what follows the first difference is its consequence


def tensors(plans: Iterable[GraphPlan], rows: list[CompileRow]) -> Iterator[Finding]:
    """Graphs whose results have other shapes or types on some ranks."""
    for compile_id, by_rank in by_graph(plans, "tensors").items():
        steps = {rank: tuple(s for plan in found for s in plan.steps) for rank, found in by_rank.items()}
        groups = groups_of(steps)
        if len(groups) < 2:
            continue
        told = groups[1][0]
        lead = by_rank[told[0]][0]
        fact, severity = _difference(compile_id, groups, steps[groups[0][0][0]], steps[told[0]])
        yield from_record(
            lead,
            fact,
            severity,
            confidence=Confidence.LIKELY if severity is Severity.WARNING else Confidence.POSSIBLE,
            code=function_of(compilation(rows, compile_id, lead.origin.rank)),
            ranks=told,
            facts={named(ranks): f"{len(steps[ranks[0]])} operations" for ranks, _ in groups[:6]},
            fixes=(SAME,),
            related=tuple(Related(by_rank[r[0]][0].anchor, f"{named(r)}") for r, _ in groups[:1]),
            subject="tensors",
        )
        return


def _difference(compile_id: str, groups: Groups, first: Sequence[str], other: Sequence[str]) -> tuple[str, Severity]:
    """What differs, in words. A rank that is alone with its shapes shares no group with its like."""
    here, there = named(groups[1][0]), named(groups[0][0])
    pairs = [(a, b) for a, b in zip_longest(first, other, fillvalue="nothing") if a != b]
    for a, b in pairs:
        name, _, shapes = b.partition(" ")
        same = a.partition(" ")[0] == name and shapes
        if same and _EVEN.search(name) and min(len(ranks) for ranks, _ in groups) == 1:
            return (
                f"Graph {compile_id} exchanges {one_line(shapes, 60)} on {here} and "
                f"{one_line(a.partition(' ')[2], 60)} on {there} in `{short(name)}`, which needs the same on all "
                "ranks of a group: the job hangs, fails, or goes on with wrong numbers.",
                Severity.WARNING,
            )
    a, b = pairs[0]
    return (
        f"Graph {compile_id} computes other tensors on {here} than on {there} "
        f"({one_line(b, 60)} instead of {one_line(a, 60)}): if they are exchanged, the job hangs or fails.",
        Severity.NOTE,
    )


def unwaited(plans: Iterable[GraphPlan], rows: list[CompileRow]) -> Iterator[Finding]:
    """Graphs that start more collectives than they wait for."""
    for plan in plans:
        waits = sum(_WAIT in step for step in plan.steps)
        started = len(plan.steps) - waits
        if plan.kind == "collectives" and _UNNAMED not in plan.steps and waits < started:
            compile_id = plan.origin.compile_id.split("_")[0]
            rest = "the results" if not waits else "the results of the others"
            yield from_record(
                plan,
                f"Graph {compile_id} starts {started} collective{'s' if started > 1 else ''} and waits for "
                f"{waits or 'none'}: {rest} must be waited for outside, or are read too early.",
                Severity.NOTE,
                confidence=Confidence.POSSIBLE,
                code=function_of(compilation(rows, compile_id, plan.origin.rank)),
                facts={"collectives": started, "waits": waits, "in order": [short(s) for s in plan.steps[:12]]},
                subject="waits",
            )
            return


def by_graph(plans: Iterable[GraphPlan], kind: str) -> dict[str, dict[int, list[GraphPlan]]]:
    """Compile id -> rank -> plans, of graphs that two or more ranks have."""
    found: dict[str, dict[int, list[GraphPlan]]] = {}
    for p in plans:
        if p.kind == kind and p.origin.rank is not None:
            compile_id = p.origin.compile_id.split("_")[0]
            found.setdefault(compile_id, {}).setdefault(p.origin.rank, []).append(p)
    return {i: by_rank for i, by_rank in sorted(found.items()) if len(by_rank) > 1}


def short(name: str) -> str:
    """`torch.ops._c10d_functional.all_reduce_.default` as `all_reduce_`."""
    return name.removesuffix(".default").rpartition(".")[2] or name
