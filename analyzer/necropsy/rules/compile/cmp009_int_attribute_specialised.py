"""An integer attribute of a module is compiled in as a constant, and changes

What it means
    Dynamo takes the integers of an `nn.Module` for constants. A counter such as `self.steps += 1`
    makes every call a new compilation, until the limit of recompilations is hit and the function
    runs eagerly. An index that differs between layers compiles each layer by itself.

Why it happens
    Step counters, warm-up switches and layer indices are kept as plain attributes and are read in
    `forward`.

How to confirm
    `TORCH_LOGS=recompiles` shows `self.<name> == <value>` failing with one value after the other.
    With `side_effects` in TORCH_LOGS (torch 2.11 and later) the line that changes the attribute is named, where it is
    one only; guards name the line that reads it.

How to fix
    Keep the counter outside the compiled function, or make it a tensor (a buffer). Since torch 2.7
    `torch._dynamo.config.allow_unspec_int_on_nn_module = True` makes such integers dynamic.

Limits
    The guard stands at the first line that touches the attribute; if that line only reads it, who
    changes it is told by the log of side effects alone, and not where several lines do.

References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.recompilation.html
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.claim import from_record
from necropsy.evidence.compiles import Compiles
from necropsy.evidence.input_guards import InputGuards
from necropsy.evidence.recompile_limits import RecompileLimits
from necropsy.evidence.recompiles import Recompiles
from necropsy.evidence.settings import Settings
from necropsy.evidence.shape_guards import ShapeGuards
from necropsy.evidence.side_effects import SideEffects
from necropsy.finding import Finding, Severity
from necropsy.provenance.recompiles import Story, stories
from necropsy.provenance.sizes import SizeLines
from necropsy.rule import rule
from necropsy.rules.compile import _recompiles as say
from necropsy.rules.compile._recompile_fixes import changes, fixes_for


class Thresholds(Struct, frozen=True):
    """Recompilations of one function from which it is a warning."""

    recompilations: int = 2


@rule("CMP009", "int-attribute-specialised", Severity.WARNING, settings=Thresholds)
def check(
    recompiles: Recompiles,
    limits: RecompileLimits,
    compiles: Compiles,
    settings: Settings,
    shapes: ShapeGuards,
    inputs: InputGuards,
    effects: SideEffects,
    thresholds: Thresholds,
) -> Iterator[Finding]:
    """One finding an attribute; where the limit was hit CMP008 tells it."""
    told = stories(recompiles, limits, SizeLines(shapes, inputs), effects)
    known = say.versions(told, settings)
    for story in told:
        if story.rows and not story.limits and say.is_int_attribute(story):
            loud = story.most >= thresholds.recompilations
            severity = Severity.WARNING if loud else Severity.NOTE
            yield from_record(
                min(story.rows, key=lambda r: r.seq),
                _message(story),
                severity,
                code=say.code_of(story),
                subject=say.about(story),
                ranks=story.ranks(),
                facts=say.facts(story),
                fixes=fixes_for(story, known),
                cost=say.spent(story, compiles),
                related=say.related(story),
                count=len(story.rows),
            )


def _message(story: Story) -> str:
    count, place = story.most, story.place
    name = say.subject(story)
    times = f"{count} times" if count > 1 else "once"
    end = "each new value is compiled again"
    if place is not None and place.text and not changes(place, name.strip("`").rpartition(".")[2]):
        end = "each value is compiled by itself (this line reads it)"
    why = f"{name} changes{say.change(story)}{say.quoted(story)}"
    return f"{say.functions(story)} recompiled {times} because {why}: {end}."
