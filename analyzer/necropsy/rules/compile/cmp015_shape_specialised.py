"""A size that was to be dynamic is fixed to one value

What it means
    torch.compile kept a size open, then met code that holds for one value only. The compiled
    code is for that value; each other one is compiled again, or is an error where the size was
    marked dynamic.

Why it happens
    The size meets a constant: it is added to, concatenated or compared with a tensor of a fixed
    size, tested with `==`, or used as a Python number where one is needed.

How to confirm
    `TORCH_LOGS=dynamic` prints `set_replacement` with the line; the structured log
    (TORCH_TRACE) has `symbolic_shape_specialization` with reason and stack.

How to fix
    Derive the other size from the same tensor (`torch.ones(x.shape[0])` for `torch.ones(5)`),
    drop the comparison, or accept it: `mark_static`, or pad to one size.

Limits
    A size that never changes costs nothing by being fixed: where no recompilation for it is
    logged this is a note. Where it was compiled again and again CMP007 tells it with this line.

References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.dynamic_shapes.html
    - torch/fx/experimental/symbolic_shapes.py (`_set_replacement`), torch 2.4 to 2.13
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.grammars.guard import shown
from necropsy_parsers.messages.symbolic_shape import SymbolicShape
from necropsy_parsers.numbers import natural
from necropsy_parsers.patterns import lazily

from necropsy.claim import from_record, one_line
from necropsy.evidence.recompiles import RecompileRow, Recompiles
from necropsy.evidence.shape_guards import ShapeGuards
from necropsy.finding import Finding, Fix, Place, Severity
from necropsy.provenance.dynamo import plain_function
from necropsy.provenance.frames import is_library, place_of
from necropsy.rule import rule

_SIZE: Final = lazily(r"^(?P<source>.+)\.(?P<what>size|stride)\(\)\[(?P<dim>\d+)\]$")
_REASONS: Final = {
    "range_refined_to_singleton": "what is asked of it leaves this value only",
    "find": "it must equal a fixed size",
    "solve": "an equation that it must fulfil has this solution only",
}


@rule("CMP015", "shape-specialised", Severity.WARNING, aliases=("symbolic_shape_specialization",))
def check(shapes: ShapeGuards, recompiles: Recompiles) -> Iterator[Finding]:
    """One finding a size and line; silent where CMP007 names the line."""
    groups: dict[tuple[str, str, int | None], list[SymbolicShape]] = {}
    for row in shapes:
        frame = row.frame
        if row.kind == "constant" and row.source and frame is not None and not is_library(frame.file):
            groups.setdefault((row.source, frame.file, frame.line), []).append(row)
    for rows in groups.values():
        changes = [r for r in recompiles if _about(r, rows)]
        if len(changes) < 2:
            yield _finding(rows, changes)


def _about(recompile: RecompileRow, rows: Sequence[SymbolicShape]) -> bool:
    """Whether a recompilation of that function was for that size."""
    m = _SIZE.match(rows[0].source)
    if m is None or (shown(m["source"]), natural(m["dim"])) != (recompile.source, recompile.dim):
        return False
    return any(
        (r.origin.pid, r.origin.compile_id.rpartition("/")[0]) == (recompile.origin.pid, recompile.frame_id)
        for r in rows
    )


def _finding(rows: Sequence[SymbolicShape], changes: Sequence[RecompileRow]) -> Finding:
    first = rows[0]
    assert first.frame is not None
    place = place_of(first.frame, how="structured log" if first.anchor.text.startswith("V") else "log of sizes")
    place = Place(place.file, place.line, None, plain_function(place.function), place.text, "line", place.how)
    subject = _subject(first.source)
    reason = _REASONS.get(first.expression, first.expression)
    why = f" ({reason})" if reason else ""
    end = (
        f"; it does change ({changes[0].expected} -> {changes[0].actual or '?'}), and each value is compiled by itself"
        if changes
        else ": each other size is compiled again, or refused where it is marked dynamic"
    )
    return from_record(
        first,
        f"`{one_line(place.text, 90) or place.function}` fixes {subject}, which was to be dynamic, to "
        f"{first.value}{why}{end}.",
        Severity.WARNING if changes else Severity.NOTE,
        code=(place,),
        subject=first.source,
        ranks=tuple(sorted({r.origin.rank for r in rows if r.origin.rank is not None})),
        facts={
            "size": shown(first.source),
            "value": first.value,
            "reason": first.expression or "untold",
            "compilations": list(dict.fromkeys(r.origin.compile_id for r in rows))[:16],
        },
        fixes=(
            Fix("Derive the other size from the same tensor, or drop the comparison with a fixed size", "code"),
            Fix("If one size is enough, pad to it and leave the size static", "code"),
        ),
        count=len(rows),
    )


def _subject(source: str) -> str:
    m = _SIZE.match(source)
    if m is None:
        return f"`{shown(source)}`"
    return f"{'dimension' if m['what'] == 'size' else 'the stride of dimension'} {m['dim']} of `{shown(m['source'])}`"
