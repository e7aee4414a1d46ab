"""Ranks called different collectives at the same point

What it means
    With TORCH_DISTRIBUTED_DEBUG=DETAIL torch compares what the ranks are about to run. They
    disagreed in operation, size or type: one of them took another path.

Why it happens
    A branch that depends on a rank's own data (a batch without images, an empty shard, an early
    stop), different models or bucket sizes, a collective inside `if rank == 0`.

How to confirm
    Compare the two calls in the facts; print the batch of both ranks at that step.

How to fix
    Let all ranks take the same path: a dummy input on the side that has none, the decision
    reduced over ranks first.

Limits
    All ranks are witnesses: which of them strayed the message does not say. The call that
    fewest ranks ran leads; of two ranks, none is the odd one. In a gradient reduction the
    smaller call belongs to the rank that skipped part of the model.

References
    - https://docs.pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.messages.ddp_error import DdpError

from necropsy.claim import event_of, from_exception, process_of
from necropsy.conditions import PEER_ABSENT, PROCESS_DIED
from necropsy.evidence.ddp_errors import DdpErrors
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.finding import MAX_PLACES, Confidence, Finding, Fix, Related, Severity
from necropsy.rule import rule

Call = tuple[int, int | None, str, str, str]  # rank, sequence, operation, shape, dtype
Point = tuple[int, int, int | None]  # attempt, rank, sequence
_SAME_PATH: Final = Fix(
    "Let every rank take the same path: a dummy input where a batch lacks a part, decisions reduced over ranks first",
    "code",
)
_COMPARE: Final = Fix("Compare the batches of these ranks at that step", "investigate")


def _describe(call: Call) -> str:
    rank, sequence, operation, shape, dtype = call
    number = f" #{sequence}" if sequence is not None else ""
    size = f" of shape [{shape}]" if shape else ""
    return f"rank {rank} {operation or 'another collective'}{number}{size}{f' {dtype}' if dtype else ''}"


def _difference(calls: Sequence[Call]) -> str:
    """What differs between the first two calls."""
    if len(calls) < 2:
        return "calls"
    a, b = calls[:2]
    if a[2] != b[2]:
        return "operations"
    return "tensor shapes" if a[3] != b[3] else "tensor types" if a[4] != b[4] else "sequence numbers"


class _Disagreement(Struct):
    """What several ranks say about one point: their errors with the exceptions that said them."""

    told: list[tuple[DdpError, ExceptionRow]] = field(default_factory=list)
    points: set[Point] = field(default_factory=set)

    @property
    def calls(self) -> list[Call]:
        """All calls named, each once."""
        return list(dict.fromkeys(c for e, _ in self.told for c in e.calls))

    def odd_first(self) -> list[Call]:
        """One call of each kind, what fewest ranks ran first; as told where no kind is rarer."""
        kinds = Counter(c[2:] for c in self.calls)
        first = {c[2:]: c for c in reversed(self.calls)}
        return sorted((first[k] for k in kinds), key=lambda c: kinds[c[2:]])

    def leading(self) -> list[tuple[DdpError, ExceptionRow]]:
        """Who tells it, best first: of those whose failure ended them, the rank that ran the rarest call."""
        order = [c[2:] for c in self.odd_first()]
        return sorted(
            self.told, key=lambda t: (t[1].handled, order.index(t[0].calls[0][2:]) if t[0].calls else len(order))
        )


def _gather(told: Sequence[tuple[DdpError, ExceptionRow]]) -> list[_Disagreement]:
    """The errors of one disagreement together: those that name the same rank at the same point."""
    groups: list[_Disagreement] = []
    for error, row in told:
        points = {(error.attempt, c[0], c[1]) for c in error.calls}
        joined = [g for g in groups if g.points & points]
        group = joined[0] if joined else _Disagreement()
        for other in joined[1:]:
            group.told += other.told
            group.points |= other.points
        group.told.append((error, row))
        group.points |= points
        groups = [g for g in groups if g not in joined[1:]] if joined else [*groups, group]
    return groups


def _model(error: DdpError, row: ExceptionRow) -> Finding:
    message = f"The ranks built different models: {error.text[:160]} (parameter shape mismatch between ranks)."
    return from_exception(
        row,
        message,
        ranks=(),
        confidence=Confidence.LIKELY,
        fixes=(Fix("Build the model from the same configuration on every rank", "code"), _COMPARE),
        leaves=frozenset({PROCESS_DIED, PEER_ABSENT}),
    )


def _collectives(group: _Disagreement) -> Finding:
    (error, row), *others = group.leading()
    calls = group.odd_first() if len(group.told) > 1 else list(error.calls)
    if len(calls) < 2:
        calls = list(error.calls)
    told = "; ".join(_describe(c) for c in calls[:2])
    return from_exception(
        row,
        f"Ranks disagree about a collective (mismatch: different {_difference(calls)}): {told}.",
        ranks=(),
        code=tuple(dict.fromkeys(p for _, r in group.leading() for p in r.places[:1]))[:MAX_PLACES] or row.places,
        facts={f"rank {c[0]}": _describe(c) for c in group.calls[:8]},
        confidence=Confidence.LIKELY,
        fixes=(_SAME_PATH, _COMPARE),
        leaves=frozenset({PROCESS_DIED, PEER_ABSENT}),
        seq=min(r.seq for _, r in group.told),
        related=tuple(Related(r.anchor, _says(e)) for e, r in others)[:5],
        claims=frozenset(event_of(r) for _, r in others),
        processes=tuple(process_of(r.origin) for _, r in others),
    )


def _says(error: DdpError) -> str:
    return f"rank {error.calls[0][0]} says so, too" if error.calls else "told again"


@rule("DST019", "collective-disagreement", Severity.FATAL)
def check(errors: DdpErrors, exceptions: Exceptions) -> Iterator[Finding]:
    """Mismatching collectives, one finding a disagreement, and models that differ between ranks."""
    said = list({event_of(row): (e, row) for e in errors if (row := exceptions.said(e)) is not None}.values())
    yield from (_model(e, row) for e, row in said if e.kind == "model")
    yield from map(_collectives, _gather([(e, row) for e, row in said if e.kind == "collectives"]))
