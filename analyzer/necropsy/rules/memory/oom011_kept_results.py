"""A line's results are kept from step to step

What it means
    Over the whole recorded history, blocks that this line allocated were not freed while more
    of them came: something keeps them. Small ones are no danger to a short run; a long one
    ends with an out-of-memory error, or slows down as its memory fills up.

Why it happens
    Losses or outputs are put into a list that lives as long as training does
    (`history.append(loss)`), summed up as tensors (`total += loss`), or cached without a bound.
    If they were not detached, each keeps its graph, too.

How to confirm
    Look for the statement that is named, or print `torch.cuda.memory_allocated()` at the
    end of each step. Open the snapshot at pytorch.org/memory_viz: blocks of one colour that stay.

How to fix
    Store numbers (`loss.item()`, every so many steps) or copies on the host
    (`x.detach().cpu()`); keep the last ones only (`collections.deque(maxlen=100)`); empty the list each epoch.

Limits
    Eight blocks or more that stay, over half of the recorded history, are needed, and steps of training
    between them; without these, nearly all else must have been freed meanwhile, and it is a note,
    since results may be meant to be kept. The statement is read from the source, if the run's own is
    at hand: values are followed through names and `return`, not through functions that are not
    on the stack, and a list that is emptied or made anew somewhere is not accused. Where large
    lines grow when memory ran out, OOM009 tells it.

References
    - https://docs.pytorch.org/docs/stable/notes/faq.html
    - https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from necropsy_parsers.snapshot.model import MemorySnapshot

from necropsy.claim import process_of, ranks_of
from necropsy.evidence.memory_snapshots import MemorySnapshots
from necropsy.evidence.sources import Sources
from necropsy.finding import MAX_PLACES, Confidence, Fact, Finding, Fix, Place, Severity
from necropsy.provenance.kept import Kept
from necropsy.rule import rule
from necropsy.rules.memory._growing import Growing, growing
from necropsy.rules.memory._held import LEAST, SHARE, held_of, large_of
from necropsy.rules.memory._keeping import at, certain, fix_of, kept_of, listed, place_of, quoted
from necropsy.units import human_bytes


class Thresholds(Struct, frozen=True):
    """`daily`: bytes a day from which growth is a warning whatever keeps it; `times`: of as many blocks, without times.

    A GiB in all, as for creeping memory in a live monitor (traceml); this project's choice is the day.
    """

    daily: int = 1 << 30
    times: int = 10_000


@rule("OOM011", "kept-results", Severity.WARNING, settings=Thresholds, aliases=("memory-leak-by-line",))
def check(snapshots: MemorySnapshots, sources: Sources, t: Thresholds) -> Iterator[Finding]:
    """One finding a statement that keeps results, or a device of which it is not known."""
    for s in snapshots.snapshots:
        found = _untold(s, growing(s))
        kept = kept_of(s, found, sources.tree)
        groups: dict[tuple[Kept, ...], list[Growing]] = {}
        for g in found:
            groups.setdefault(kept[g.frame], []).append(g)
        rest = groups.pop((), [])
        for by, lines in groups.items():
            yield _finding(s, by, lines, rest, t)
        if not groups and (several := [g for g in rest if g.passes]):  # of one pass all may still be needed
            yield _finding(s, (), several, (), t)


def _untold(s: MemorySnapshot, found: list[Growing]) -> list[Growing]:
    """Those that OOM009 does not tell of as lines that hold much and more and more."""
    held = held_of(s) if found else None
    if held is None or not (s.refused or held.total >= LEAST):
        return found
    told = {line.frame for line in large_of(held, SHARE) if line.grows}
    return [g for g in found if g.frame not in told]


def _finding(
    s: MemorySnapshot, by: tuple[Kept, ...], lines: Sequence[Growing], others: Sequence[Growing], t: Thresholds
) -> Finding:
    sure = certain(by)
    alloc = [Place(g.frame.file, g.frame.line, None, g.frame.function, how="memory snapshot") for g in lines]
    places = [place_of(sure), *alloc] if sure is not None else [*alloc[:2], *map(place_of, by), *alloc[2:]]
    loud = any(g.passes for g in lines) and (_material(lines, t) or (sure is not None and not sure.detached))
    return Finding(
        message=_message(s, by, lines),
        anchor=s.anchor,
        severity=Severity.WARNING if loud else Severity.NOTE,
        confidence=Confidence.LIKELY if by or not s.whole else Confidence.CERTAIN,
        code=tuple(dict.fromkeys(places))[:MAX_PLACES],
        ranks=ranks_of(s.origin),
        process=process_of(s.origin),
        seq=s.seq,
        event=f"kept@{s.anchor.input}:{s.device}:{at(places[0])}",
        subject=f"GPU {s.device}" if s.device else "",
        facts=_facts(s, by, lines, others),
        fixes=_fixes(by, lines),
    )


def _material(lines: Sequence[Growing], t: Thresholds) -> bool:
    """Whether it comes to a GiB soon."""
    if all(g.seconds for g in lines):
        return sum(g.daily for g in lines) >= t.daily
    return sum(g.bytes / g.blocks for g in lines) * t.times >= t.daily


def _message(s: MemorySnapshot, by: tuple[Kept, ...], lines: Sequence[Growing]) -> str:
    first, sure = lines[0], certain(by)
    made = f"{at(first.frame)} in {first.frame.function}"
    more = f" and of {len(lines) - 1} more line{'s' if len(lines) > 2 else ''}" if len(lines) > 1 else ""
    blocks, size = sum(g.blocks for g in lines), human_bytes(sum(g.bytes for g in lines))
    each = f" of {human_bytes(first.each)}" if first.each and len(lines) == 1 else ""
    rate = sum(g.daily for g in lines) / 24
    often = "step" if any(g.passes for g in lines) else "call"
    pace = f", about {human_bytes(rate)} more an hour" if rate else ""
    amount = f"{blocks:,} blocks{each} ({size}) on GPU {s.device} were not freed while more came{pace}"
    if sure is not None:
        return f"{quoted(sure)} keeps the results of {made}{more} from {often} to {often}: {amount}."
    if len(by) == 1:
        return f"{quoted(by[0])} keeps the results of {made}{more} until what holds them is emptied: {amount}."
    if by:
        each_by = " and by ".join(listed(by))
        return f"The results of {made}{more} are kept from {often} to {often}, by {each_by}: {amount}."
    return f"The results of {made}{more} are kept from {often} to {often}: {amount}; what keeps them is not known."


def _facts(
    s: MemorySnapshot, by: tuple[Kept, ...], lines: Sequence[Growing], others: Sequence[Growing]
) -> dict[str, Fact]:
    facts: dict[str, Fact] = {
        "kept, by line": _by_line(lines),
        "other lines that keep more and more": _by_line(others),
        "called from": " from ".join(f"{at(f)} in {f.function}" for f in lines[0].frames[1:4]),
        "stored by": listed(by),
        "seconds that it was watched": round(lines[0].seconds, 1),
        "events in the history": len(s.history),
    }
    return {k: v for k, v in facts.items() if v not in ("", [], 0.0)}


def _by_line(lines: Sequence[Growing]) -> list[str]:
    return [f"{at(g.frame)} in {g.frame.function}: {human_bytes(g.bytes)} in {g.blocks:,}" for g in lines[:8]]


def _fixes(by: tuple[Kept, ...], lines: Sequence[Growing]) -> tuple[Fix, ...]:
    sizes = {g.each for g in lines}
    fixes = [fix_of(by, sizes.pop() if len(sizes) == 1 else 0)]
    if by and not by[0].adds:
        fixes.append(
            Fix("Or keep the last ones only (`collections.deque(maxlen=100)`), or empty it each epoch", "code")
        )
    return tuple(fixes)
