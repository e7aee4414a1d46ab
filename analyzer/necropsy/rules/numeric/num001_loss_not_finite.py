"""The loss became NaN or infinite, or diverged

What it means
    From one step on the reported loss is NaN or Inf (or has grown far beyond what it was).
    From then on the run trains nothing: gradients are NaN, mixed precision skips every step.

Why it happens
    A learning rate too high, a missing warm-up, half-precision overflow, a division by zero
    or logarithm of zero, a batch that holds NaN.

How to confirm
    Go back to the last good checkpoint and run with
    `torch.autograd.set_detect_anomaly(True)`: it names the operation of the first NaN. Check
    the batch of that step for NaN before blaming the model.

How to fix
    Lower the learning rate or add warm-up, clip gradients, use bfloat16 instead of float16,
    guard divisions and logarithms, skip or repair bad samples.

Limits
    The log shows when the loss stopped being a number, not which operation made it so. A
    single NaN that is gone at the next report is a note. On large logs a sample of the
    finite values is read, every NaN is.

References
    - https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.messages.training_value import TrainingValue

from necropsy.claim import from_record, logged_place, process_of
from necropsy.conditions import NOT_FINITE
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.training_values import TrainingValues
from necropsy.finding import Confidence, Fact, Finding, Fix, Place, Related, Role, Severity
from necropsy.rule import rule


class Thresholds(Struct, frozen=True):
    """`spike`: factor over the median of the values before, from which a loss that stays there has diverged.

    3 is used by NVRx and Denpex for a spike; a divergence must also hold for the last
    `held` values and exceed all spikes before, because a single spike is ordinary.
    """

    spike: float = 3.0
    held: int = 3


Stacks = dict[tuple[str, int], list[ExceptionRow]]

_ANOMALY: Final = Fix(
    "Find the operation that makes the first NaN: run from the last good checkpoint in anomaly mode",
    "code",
    command="torch.autograd.set_detect_anomaly(True)",
)
_RATE: Final = Fix("Lower the learning rate, add warm-up, or clip gradients (torch.nn.utils.clip_grad_norm_)", "config")
_BATCH: Final = Fix("Check the batch of that step for NaN or Inf before the forward pass", "code")


def _series(values: TrainingValues) -> dict[tuple[str, str, int], list[TrainingValue]]:
    """Values by (name, process, attempt); gradient norms and perplexities follow the loss and only confirm it."""
    series: dict[tuple[str, str, int], list[TrainingValue]] = {}
    for v in values:
        series.setdefault((v.name.lower(), process_of(v.origin), v.attempt), []).append(v)
    return series


def _stacks(exceptions: Exceptions) -> Stacks:
    """The exceptions with places by (process, attempt), in order of reading."""
    stacks: Stacks = {}
    for row in exceptions:
        if row.places:
            stacks.setdefault((process_of(row.origin), row.attempt), []).append(row)
    return stacks


def _where(v: TrainingValue, stacks: Stacks) -> tuple[Place, ...]:
    """Where the loop is: the logging call if printed, else the function of a traceback of the same process."""
    if logged := logged_place(v.origin):
        return logged
    rows = stacks.get((process_of(v.origin), v.attempt), [])
    after = bisect_right(rows, v.seq, key=lambda r: r.seq)
    if after == len(rows):
        return ()
    p = rows[after].places[0]
    return (Place(p.file, p.line, None, p.function, p.text, "function", "traceback of the same process"),)


def _at(v: TrainingValue) -> str:
    return f" at {v.unit or 'step'} {v.step}" if v.step is not None else ""


def _not_finite(rows: Sequence[TrainingValue], stacks: Stacks) -> Finding | None:
    first = next((i for i, v in enumerate(rows) if not v.finite), None)
    if first is None:
        return None
    v, after = rows[first], rows[first:]
    bad = sum(not x.finite for x in after)
    before = rows[first - 1] if first else None
    what = "NaN" if math.isnan(v.value) else "infinite"
    lasting = bad == len(after) or bad >= 3
    facts: dict[str, Fact] = {"value": v.name}
    message = f"`{v.name}` is {what} from the first report on{_at(v)}"
    if before is not None:
        facts["last finite value"] = before.value
        message = f"`{v.name}` became {what}{_at(v)} (it was {before.value:g}{_at(before)})"
    message += ", and stays so: nothing is learned from then on." if lasting else "; later reports are finite again."
    isolated = not lasting
    return from_record(
        v,
        message,
        Severity.NOTE if isolated else Severity.ERROR,
        code=_where(v, stacks),
        facts=facts,
        fixes=(_ANOMALY, _RATE, _BATCH),
        related=(Related(before.anchor, "last finite report"),) if before is not None else (),
        role=Role.SYMPTOM if isolated else Role.ROOT,
        leaves=frozenset() if isolated else frozenset({NOT_FINITE}),
        shows=frozenset({NOT_FINITE}),
        event=_event(v),
    )


def _diverged(rows: Sequence[TrainingValue], t: Thresholds, stacks: Stacks) -> Finding | None:
    values = [v.value for v in rows]
    if len(values) < t.held + 4 or not all(v.finite for v in rows):
        return None
    early, late = values[: -t.held], values[-t.held :]
    usual = median(early)
    if usual <= 0 or min(late) < t.spike * usual:
        return None
    start = next(i for i in range(len(values)) if all(x >= t.spike * usual for x in values[i:]))
    if start == 0 or max(values[:start]) >= min(late):  # spikes as high came and went before
        return None
    v = rows[start]
    return from_record(
        v,
        f"`{v.name}` diverged{_at(v)}: from a median of {usual:g} it rose to {values[-1]:g} and did not come back.",
        Severity.WARNING,
        code=_where(v, stacks),
        facts={"value": v.name, "median before": usual, "best before": min(early), "last": values[-1]},
        fixes=(_RATE, _BATCH),
        confidence=Confidence.LIKELY,
        event=_event(v),
    )


def _of_loss(f: Finding) -> bool:
    """Whether a loss went, and not only a gradient norm."""
    return "loss" in str(f.facts["value"]).lower()


def _event(v: TrainingValue) -> str:
    return f"loss@{v.anchor.input}:{v.attempt}:{process_of(v.origin)}"


def _spread(found: Sequence[tuple[Finding, int | None]]) -> Iterator[Finding]:
    """The first process whose loss went is the root; one that followed at a later step is its consequence.

    Gradients are averaged over ranks, so one rank's NaN reaches all of them in the next step.
    """
    ordered = sorted(found, key=lambda f: (f[0].attempt, f[1] if f[1] is not None else 0, not _of_loss(f[0]), f[0].seq))
    first: dict[int, tuple[Finding, int | None]] = {}
    for finding, step in ordered:
        root, root_step = first.setdefault(finding.attempt, (finding, step))
        if finding is root:
            continue
        if step is not None and step == root_step and _of_loss(finding) == _of_loss(root):
            ranks = tuple(sorted({*root.ranks, *finding.ranks}))
            first[finding.attempt] = (replace(root, ranks=ranks), root_step)
        else:
            yield replace(finding, follows=root.event)
    yield from (finding for finding, _ in first.values())


@rule("NUM001", "loss-not-finite", Severity.ERROR, settings=Thresholds, aliases=("X12", "loss-nan", "diverging-loss"))
def check(values: TrainingValues, exceptions: Exceptions, t: Thresholds) -> Iterator[Finding]:
    """The earliest series of each process that stopped being finite, or diverged."""
    found: dict[tuple[str, int], tuple[Finding, int | None]] = {}
    stacks = _stacks(exceptions)
    for (name, process, attempt), rows in _series(values).items():
        loss = "loss" in name
        finding = _not_finite(rows, stacks) if loss or "norm" in name else None
        if finding is None and loss and "scale" not in name:
            finding = _diverged(rows, t, stacks)
        key = (process, attempt)
        if finding is not None and (key not in found or _before(finding, found[key][0])):
            step = next((v.step for v in rows if v.seq == finding.seq), None)
            found[key] = (finding, step)
    yield from _spread([f for f in found.values() if f[0].severity > Severity.NOTE])
    yield from (f for f, _ in found.values() if f.severity is Severity.NOTE)


def _before(a: Finding, b: Finding) -> bool:
    """Worse first; then losses before gradient norms; then the earlier."""

    def order(f: Finding) -> tuple[int, bool, int]:
        return -int(f.severity), not _of_loss(f), f.seq

    return order(a) < order(b)
