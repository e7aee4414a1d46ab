"""A program cannot be exported as it is, or the exported one cannot be trusted

What it means
    `torch.export` traces a program without running it. Here it needed something that only a run
    tells, or that an operator's fake kernel does not tell rightly. A plain export fails at this;
    `draft_export` goes on with what it saw, and the program may be wrong for other inputs.

Why it happens
    A branch on a tensor's value (`if n > 3` after `.item()`); code that holds for some of the
    declared sizes only; a custom operator without a fake kernel, or with one whose result has
    another shape, type or layout than the real one.

How to confirm
    Run `torch.export.draft_export` with the same arguments: its report lists the same obstacles.

How to fix
    By kind: `torch._check(...)` for values; `Dim.AUTO` or narrower sizes for guards;
    `register_fake` for a missing kernel, a corrected one for a mismatch.

Limits
    Only `draft_export` and runs with TORCH_DTRACE log these. Fake kernels have no line of their own
    in the log: the operator's name is the place to look for.

References
    - https://docs.pytorch.org/docs/stable/draft_export.html
    - torch/export/_draft_export.py (`FailureReport`), torch 2.7 to 2.13
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.structured.kinds.export import ExportFailure

from necropsy.claim import from_record, one_line
from necropsy.evidence.export_failures import ExportFailures
from necropsy.finding import Confidence, Fact, Finding, Fix, Place, Severity
from necropsy.provenance.dynamo import claimed_frame
from necropsy.provenance.frames import is_library, place_of
from necropsy.rule import rule

_VALUES: Final = ("data-dependent", "data-dependent error")


@rule("CMP014", "export-failure", Severity.WARNING, aliases=("draft-export",))
def check(failures: ExportFailures) -> Iterator[Finding]:
    """One finding an obstacle: kind and line, or kind and operator."""
    groups: dict[tuple[object, ...], list[ExportFailure]] = {}
    for row in failures:
        place = _place(row)
        kind = "data-dependent" if row.kind in _VALUES else row.kind
        where = (row.op,) if row.op else (place.file, place.line) if place else (row.expression,)
        groups.setdefault((kind, *where), []).append(row)
    for rows in groups.values():
        yield _finding(rows)


def _place(row: ExportFailure) -> Place | None:
    frame = claimed_frame(row.frames)
    if frame is None or is_library(frame.file):
        return None
    return place_of(frame, how="stack in the structured log")


def _finding(rows: Sequence[ExportFailure]) -> Finding:
    first = next((r for r in rows if r.kind != "data-dependent error"), rows[0])
    place = _place(first)
    message, fixes = _told(first, place)
    facts: dict[str, Fact] = {"kind": first.kind}
    told = (
        ("operator", first.op),
        ("reason", one_line(first.reason)),
        ("expression", first.expression),
        ("taken for", first.result),
    )
    facts |= {name: value for name, value in told if value}
    return from_record(
        first,
        message,
        Severity.WARNING,
        confidence=Confidence.LIKELY if first.kind == "data-dependent error" else Confidence.CERTAIN,
        code=(place,) if place is not None else (),
        subject=first.op,
        ranks=tuple(sorted({r.origin.rank for r in rows if r.origin.rank is not None})),
        facts=facts,
        fixes=fixes,
        count=len(rows),
    )


def _told(row: ExportFailure, place: Place | None) -> tuple[str, tuple[Fix, ...]]:
    """The sentence of its kind, and the way out."""
    op = f"torch.ops.{row.op.removesuffix('.default')}"
    at = f"`{one_line(place.text, 90)}`" if place is not None and place.text else "The traced program"
    if row.kind == "missing kernel":
        return (
            f"`{op}` has no fake kernel: the export took one from the run, and a plain export fails.",
            (Fix(f'Register one: `@torch.library.register_fake("{_name(row.op)}")`', "code"),),
        )
    if row.kind == "mismatched kernel":
        return (
            f"The fake kernel of `{op}` differs from the real one ({one_line(row.reason, 140)}): the exported program "
            "is wrong about its result.",
            (Fix(f"Correct the fake kernel of {_name(row.op)}: same shape, dtype, strides and aliasing", "code"),),
        )
    if row.kind == "guard":
        return (
            f"{at} holds for some of the declared sizes only (`{one_line(row.expression, 100)}` was assumed): "
            "the exported program is valid for those.",
            (
                Fix("Declare the dimension as `torch.export.Dim.AUTO`, or with the range for which it holds", "code"),
                Fix("Change the line so that it does not depend on the size", "code"),
            ),
        )
    taken = f"; it was taken for {row.result}" if row.result else ""
    return (
        f"{at} needs the value of `{one_line(row.expression, 100)}`, which only a run tells{taken}.",
        (
            Fix(f"Say what holds: `torch._check({one_line(row.expression, 80)})`, in the program's own names", "code"),
            Fix("Express the branch with `torch.cond`, or keep it out of the exported program", "code"),
        ),
    )


def _name(op: str) -> str:
    """An operator's name as torch.library wants it: `mylib::scale`."""
    return op.removesuffix(".default").replace(".", "::", 1)
