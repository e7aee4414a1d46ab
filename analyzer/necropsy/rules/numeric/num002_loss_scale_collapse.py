"""Mixed precision skips step after step and the loss scale collapses

What it means
    The gradient scaler found Inf or NaN in the gradients again and again; each time it
    skipped the optimizer step and lowered the scale. A few skips at the start are normal, an
    unbroken fall is a run that trains nothing.

Why it happens
    NaN in the loss or the data (then no scale helps), activations beyond float16's range, a
    learning rate too high.

How to confirm
    Print the loss before scaling: if it is NaN, the scaler is only the messenger.

How to fix
    Remove the source of NaN; use bfloat16, which needs no scaler; lower the learning rate.

Limits
    Apex, DeepSpeed and torch scalers are read as they print; torch's prints nothing by
    itself, so the script must report the scale.

References
    - https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from necropsy_parsers.messages.loss_scale import LossScale

from necropsy.claim import event_of, from_record, logged_place, process_of
from necropsy.conditions import NOT_FINITE
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.loss_scales import LossScales
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.provenance.frames import is_library
from necropsy.rule import rule


class Thresholds(Struct, frozen=True):
    """`falls`: halvings in a row from which the scale has collapsed.

    torch starts at 65536 and needs up to about ten halvings to find a scale that fits
    (2**16 to 2**6); eight in a row with a scale below one, or twelve, are beyond that.
    `stuck`: reports in a row with skipped steps at a scale of one or less.
    """

    falls: int = 12
    falls_below_one: int = 8
    stuck: int = 3


_FIXES: Final = (
    Fix("Check the unscaled loss and the gradients for NaN: with NaN in them no scale helps", "code"),
    Fix("Train in bfloat16 (no scaler needed) or lower the learning rate", "config"),
)


def _fall(rows: Sequence[LossScale]) -> list[LossScale]:
    """The longest run of readings in which the scale only falls."""
    best: list[LossScale] = []
    run: list[LossScale] = []
    for row in rows:
        if row.scale is None:
            continue
        if run and run[-1].scale is not None and row.scale < run[-1].scale:
            run.append(row)
        elif not (run and row.skipped and row.scale == run[-1].scale):
            run = [row]
        if len(run) > len(best):
            best = list(run)
    return best


def _stuck(rows: Sequence[LossScale], length: int) -> list[LossScale]:
    """The last reports, if all of them skipped steps at a scale that cannot fall further."""
    run: list[LossScale] = []
    for row in rows:
        run = [*run, row] if row.skipped and row.scale is not None and row.scale <= 1 else []
    return run if len(run) >= length else []


@rule("NUM002", "loss-scale-collapse", Severity.ERROR, settings=Thresholds)
def check(scales: LossScales, exceptions: Exceptions, t: Thresholds) -> Iterator[Finding]:
    """An unbroken fall of the scale, or its minimum reached."""
    by_process: dict[tuple[str, int], list[LossScale]] = {}
    for row in scales:
        by_process.setdefault((process_of(row.origin), row.attempt), []).append(row)
    rows = {(r.anchor.input, r.seq): r for r in exceptions}
    for readings in by_process.values():
        fall = _fall(readings)
        floor = next((r for r in readings if r.floor), None)
        falls = len(fall) - 1
        low = bool(fall) and (fall[-1].scale or 0) < 1
        stuck = _stuck(readings, t.stuck)
        if stuck and floor is None:
            skipped = sum(r.skipped for r in stuck)
            yield from_record(
                stuck[0],
                (
                    f"The last {skipped} steps were all skipped at a loss scale of {stuck[-1].scale:g}: "
                    "gradients overflow at every scale."
                ),
                Severity.ERROR,
                facts={"skipped steps": skipped, "scale": stuck[-1].scale or 0.0, "report": stuck[0].anchor.text[:160]},
                fixes=_FIXES,
                shows=frozenset({NOT_FINITE}),
                leaves=frozenset({NOT_FINITE}),
            )
            continue
        if floor is None and not (falls >= t.falls or (low and falls >= t.falls_below_one)):
            continue
        first = fall[1] if falls > 1 else (floor or fall[0])
        facts: dict[str, Fact] = {"falls in a row": max(falls, 0)}
        if falls > 1:
            facts |= {"first scale": fall[0].scale or 0.0, "last scale": fall[-1].scale or 0.0}
        message = (
            (
                f"The loss scale fell {falls} times in a row, from {fall[0].scale:g} to {fall[-1].scale:g}: "
                "every one of these steps was skipped."
            )
            if falls > 1
            else "The loss scale reached its minimum: gradients overflow at every scale."
        )
        ended = rows.get((floor.anchor.input, floor.seq)) if floor is not None else None
        yield from_record(
            first,
            message,
            Severity.FATAL if ended is not None else Severity.ERROR,
            code=ended.places
            if ended is not None
            else tuple(p for p in logged_place(first.origin) if not is_library(p.file)),
            facts=facts,
            fixes=_FIXES,
            shows=frozenset({NOT_FINITE}),
            leaves=frozenset({NOT_FINITE}),
            event=event_of(ended) if ended is not None else f"loss-scale@{first.anchor.input}:{first.seq}",
        )
