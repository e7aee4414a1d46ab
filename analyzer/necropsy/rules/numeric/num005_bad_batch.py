"""A batch or sample holds NaN, Inf or nothing

What it means
    The program itself noted that its data is not finite (or that a loss is zero) and that it
    skipped it. Alone that is a note; followed by a loss that is NaN, or by a scaler or an
    assertion that fails, it is the cause.

Why it happens
    Missing values in the source data, a normalisation that divides by zero, a corrupt shard,
    masks that leave no target.

How to confirm
    Load the named sample and test it with `torch.isfinite(x).all()`.

How to fix
    Repair or drop the sample before training. When a batch is skipped, skip backward and the
    optimizer step on all ranks alike.

Limits
    The note is in the program's own words; it is read by shape (something not finite, said of
    data), and weighs only if a failure of numbers follows it.

References
    - https://docs.pytorch.org/docs/stable/generated/torch.isfinite.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.claim import from_record, logged_place, one_line
from necropsy.conditions import NO_GRADIENTS, NOT_FINITE
from necropsy.evidence.bad_batches import BadBatches
from necropsy.finding import Confidence, Finding, Fix, Role, Severity
from necropsy.provenance.frames import is_library
from necropsy.rule import rule


@rule("NUM005", "bad-batch", Severity.NOTE)
def check(notes: BadBatches) -> Iterator[Finding]:
    """A note each; what follows decides its weight."""
    for n in notes:
        what = "NaN or Inf in its data" if n.kind == "nan" else "a zero loss or empty data"
        of = f" ({n.subject})" if n.subject else ""
        yield from_record(
            n,
            f'The program noted {what}{of}: "{one_line(n.text, 140)}".',
            Severity.NOTE,
            code=tuple(p for p in logged_place(n.origin) if not is_library(p.file)),
            confidence=Confidence.LIKELY,
            facts={"note": n.text, "subject": n.subject} if n.subject else {"note": n.text},
            fixes=(
                Fix(
                    "Repair or drop the named samples; test batches with torch.isfinite before the forward pass", "code"
                ),
                Fix("Where a batch is skipped, skip backward and the optimizer step too, on every rank alike", "code"),
            ),
            role=Role.SYMPTOM,
            leaves=frozenset({NOT_FINITE, NO_GRADIENTS}),
        )
