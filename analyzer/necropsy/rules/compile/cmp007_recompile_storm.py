"""A function is compiled again and again for one changing value

What it means
    Compiled code holds for the sizes, types and Python values that it was compiled for (its
    guards). A call that fails a guard waits for a new compilation, which takes seconds to minutes.

Why it happens
    A ragged last batch, sequence lengths that differ, a Python number as an argument, lists of
    changing length, train and eval in turn, functions created in the loop.

How to confirm
    `TORCH_LOGS=recompiles` lists each recompilation with the guard that failed; with `dynamic`
    besides, also the line that a changing size comes from.
    Which line changes a list or an attribute tells `TORCH_LOGS=recompiles,side_effects` (torch 2.11 and later);
    guards name the line that reads it.

How to fix
    See the finding: the remedy depends on what changes. Sizes: `mark_dynamic`, dynamic=True,
    `drop_last`, padding or buckets. Numbers: pass a tensor. Objects: create them once.

Limits
    torch makes a size dynamic after its first change; a single recompilation for it is a note. The
    guard's line is where the value is used first, not where it was made. A tensor's size names
    the function only, unless the log tells more: `TORCH_LOGS=recompiles,dynamic` where the size
    entered and which line allows it one value only, `TORCH_LOGS=recompiles,guards` the former.

References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.recompilation.html
    - https://docs.pytorch.org/docs/stable/compile/programming_model.dynamic_shapes.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from necropsy.claim import event_of, from_exception, from_record
from necropsy.evidence.compiles import Compiles
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.input_guards import InputGuards
from necropsy.evidence.recompile_limits import RecompileLimits
from necropsy.evidence.recompiles import Recompiles
from necropsy.evidence.settings import Settings
from necropsy.evidence.shape_guards import ShapeGuards
from necropsy.evidence.side_effects import SideEffects
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.provenance.recompiles import Story, stories
from necropsy.provenance.sizes import SizeLines
from necropsy.rule import rule
from necropsy.rules.compile import _recompiles as say
from necropsy.rules.compile._recompile_fixes import fixes_for


class Thresholds(Struct, frozen=True):
    """When recompilations are a warning, and how many single ones are told as notes.

    `recompilations`: of one function in one process; `pieces`: in one process over all functions (a graph break cuts
    a function into several) that one value touches.
    """

    recompilations: int = 2
    pieces: int = 4
    notes: int = 3


@rule("CMP007", "recompile-storm", Severity.WARNING, settings=Thresholds)
def check(
    recompiles: Recompiles,
    limits: RecompileLimits,
    exceptions: Exceptions,
    compiles: Compiles,
    settings: Settings,
    shapes: ShapeGuards,
    inputs: InputGuards,
    effects: SideEffects,
    thresholds: Thresholds,
) -> Iterator[Finding]:
    """One finding a cause; where the limit was hit CMP008 tells it, of integer attributes CMP009."""
    told = stories(recompiles, limits, SizeLines(shapes, inputs), effects)
    known = say.versions(told, settings)
    quiet: list[Story] = []
    for story in told:
        fixes = fixes_for(story, known)
        yield from _forbidden(story, exceptions, fixes)
        if not story.rows or story.limits or say.is_int_attribute(story) or _told_by_exception(story):
            continue
        if story.most >= thresholds.recompilations or story.in_one_process() >= thresholds.pieces:
            yield _finding(story, Severity.WARNING, fixes, compiles)
        else:
            quiet.append(story)
    quiet.sort(key=lambda s: -len(s.rows))
    for story in quiet[: thresholds.notes]:
        yield _finding(story, Severity.NOTE, fixes_for(story, known), compiles, quiet[thresholds.notes :])


def _told_by_exception(story: Story) -> bool:
    """Whether the only recompilation is the one that was forbidden."""
    return bool(story.refused) and len(story.rows) <= len(story.refused)


def _finding(
    story: Story, severity: Severity, fixes: tuple[Fix, ...], compiles: Compiles, rest: Sequence[Story] = ()
) -> Finding:
    facts = say.facts(story)
    if rest:
        facts["further functions recompiled once"] = sum(len(s.rows) for s in rest)
    return from_record(
        min(story.rows, key=lambda r: r.seq),
        _message(story, severity),
        severity,
        code=say.code_of(story),
        subject=say.about(story),
        ranks=story.ranks(),
        facts=facts,
        fixes=fixes,
        cost=say.spent(story, compiles),
        related=say.related(story),
        count=len(story.rows),
        confidence=Confidence.CERTAIN,
    )


def _message(story: Story, severity: Severity) -> str:
    failure = story.failure
    most, pieces = story.most, story.in_one_process()
    why = f"{say.subject(story)} changes{say.change(story)}{say.quoted(story)}"
    if failure is None:
        return f"{say.functions(story)} recompiled {most} times; the log does not tell which guards failed."
    size = failure.guard.kind == "size"
    if severity is Severity.NOTE:
        end = "; torch makes a size dynamic after its first change" if _static(story) else ""
        return f"{say.functions(story)} recompiled once because {why}{end}."
    if most > 1:
        end = "every new size is compiled again" if size else "each new value is compiled again"
        if story.fixed is not None:
            end = "this line allows one value only, so that every new size is compiled again"
        elif _static(story) and most > 2:
            end += "; that it did not become dynamic shows dynamic=False or a size fixed by code"
        return f"{say.functions(story)} recompiled {most} times because {why}: {end}."
    return (
        f"{pieces} compiled pieces ({say.functions(story)}) recompiled because {why}: the step waited for all of them."
    )


def _static(story: Story) -> bool:
    """Whether versions for one size each met others."""
    failure = story.failure
    return failure is not None and failure.guard.kind == "size" and bool(failure.guard.actual)


def _forbidden(story: Story, exceptions: Exceptions, fixes: tuple[Fix, ...]) -> Iterator[Finding]:
    """A recompilation that a setting forbids ended the run."""
    for refused in story.refused:
        row = exceptions.said(refused)
        if row is None:
            continue
        setting = "error_on_recompile" if refused.refused == "error_on_recompile" else "the stance fail_on_recompile"
        why = (
            f"{say.subject(story)} changes{say.change(story)}{say.quoted(story)}" if story.failure else "a guard failed"
        )
        yield from_exception(
            row,
            f"{say.functions(story)} had to be recompiled because {why}, which {setting} forbids: the call failed.",
            code=say.code_of(story) or row.places,
            subject=say.about(story),
            facts=say.facts(story),
            fixes=fixes,
            claims=frozenset({event_of(row)}),
        )
