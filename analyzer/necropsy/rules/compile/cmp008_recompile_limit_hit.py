"""A function hit the limit of recompilations and runs eagerly

What it means
    Dynamo keeps a fixed number of compiled versions of a function (8 by default). One more was
    needed. From here on calls that fit none of them run eagerly, without a further word; with
    fullgraph=True or fail_on_recompile_limit_hit the run ends instead.

Why it happens
    A value that is compiled in as a constant changes from call to call: a Python number, a
    counter on a module, a size with dynamic=False, an object that is created anew each time.

How to confirm
    `TORCH_LOGS=recompiles` lists each recompilation with the guard that failed; the facts hold
    what this log tells of them.

How to fix
    Remove the cause (see the finding). A higher `torch._dynamo.config.recompile_limit`
    (`cache_size_limit` up to torch 2.6) is right only where the number of versions is small and
    known, such as one a layer.

Limits
    The warning names the last guard, or that of the oldest version up to torch 2.6; without the
    recompilations themselves the other versions may have failed for other reasons.

References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.recompilation.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from necropsy_parsers.messages.recompile_limit import RecompileLimit

from necropsy.claim import event_of, from_exception, from_record, one_line
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.input_guards import InputGuards
from necropsy.evidence.recompile_limits import RecompileLimits
from necropsy.evidence.recompiles import Recompiles
from necropsy.evidence.settings import Settings
from necropsy.evidence.shape_guards import ShapeGuards
from necropsy.evidence.side_effects import SideEffects
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.provenance.recompiles import Story, failure_of, stories
from necropsy.provenance.sizes import SizeLines
from necropsy.rule import rule
from necropsy.rules.compile import _recompiles as say
from necropsy.rules.compile._recompile_fixes import fixes_for


@rule("CMP008", "recompile-limit-hit", Severity.ERROR, aliases=("cache-size-limit",))
def check(
    limits: RecompileLimits,
    recompiles: Recompiles,
    exceptions: Exceptions,
    settings: Settings,
    shapes: ShapeGuards,
    inputs: InputGuards,
    effects: SideEffects,
) -> Iterator[Finding]:
    """One finding a cause, with the history of its recompilations."""
    told = stories(recompiles, limits, SizeLines(shapes, inputs), effects)
    known = say.versions(told, settings)
    for story in told:
        if story.limits:
            yield _finding(story, exceptions, fixes_for(story, known))


def _finding(story: Story, exceptions: Exceptions, fixes: tuple[Fix, ...]) -> Finding:
    first = min(story.limits, key=lambda r: (r.form != "warning", r.seq))
    option = next((r.option for r in story.limits if r.option), "")
    limit = next((r.limit for r in story.limits if r.limit is not None), None)
    facts: dict[str, Fact] = {**say.facts(story)}
    if option:
        facts["limit"] = f"{option} = {limit}" if limit is not None else option
    last = next((f for r in reversed(story.limits) if (f := failure_of(r)) is not None), None)
    if last is not None:
        facts["last guard"] = one_line(last.guard.raw, 200)
    setting = f"{option} ({limit})" if option and limit is not None else option or "the limit of recompilations"
    why = f": {say.subject(story)} changes{say.change(story)}{say.quoted(story)}" if story.failure else ""
    fact = f"{say.functions(story)} hit {setting} after recompiling again and again{why}"
    common: dict[str, Any] = {
        "ranks": story.ranks(),
        "facts": facts,
        "fixes": fixes,
        "related": say.related(story),
        "count": len(story.limits),
    }
    row, events = _raised(story.limits, exceptions)
    if row is not None and not row.handled:
        return from_exception(
            row,
            f"{fact}; recompiling further is forbidden (fullgraph=True or fail_on_recompile_limit_hit): the run ended.",
            **common,
            code=say.code_of(story) or row.places,
            subject=say.about(story),
            claims=events,
        )
    return from_record(
        first,
        f"{fact}; from here on this function runs eagerly.",
        Severity.ERROR,
        **common,
        code=say.code_of(story),
        subject=say.about(story),
        claims=events,
    )


def _raised(limits: list[RecompileLimit], exceptions: Exceptions) -> tuple[ExceptionRow | None, frozenset[str]]:
    """The exception that says so, and the events that all of them are."""
    rows = [row for r in limits if r.form == "exception" and (row := exceptions.said(r)) is not None]
    ended = next((r for r in rows if not r.handled), rows[0] if rows else None)
    return ended, frozenset(event_of(r) for r in rows)
