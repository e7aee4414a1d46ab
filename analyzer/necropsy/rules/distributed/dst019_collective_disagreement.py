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
    Both ranks are witnesses: which of them strayed the message does not say. In a gradient
    reduction the smaller call belongs to the rank that skipped part of the model.

References
    - https://docs.pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy_parsers.messages.ddp_error import DdpError

from necropsy.claim import from_exception
from necropsy.conditions import PEER_ABSENT, PROCESS_DIED
from necropsy.evidence.ddp_errors import DdpErrors
from necropsy.evidence.exceptions import Exceptions
from necropsy.finding import Confidence, Fact, Finding, Fix, Severity
from necropsy.rule import rule


def _describe(call: tuple[int, int | None, str, str, str]) -> str:
    rank, sequence, operation, shape, dtype = call
    number = f" #{sequence}" if sequence is not None else ""
    size = f" of shape [{shape}]" if shape else ""
    return f"rank {rank} {operation or 'another collective'}{number}{size}{f' {dtype}' if dtype else ''}"


def _difference(error: DdpError) -> str:
    """What differs between the first two calls."""
    if len(error.calls) < 2:
        return "calls"
    a, b = error.calls[:2]
    if a[2] != b[2]:
        return "operations"
    return "tensor shapes" if a[3] != b[3] else "tensor types" if a[4] != b[4] else "sequence numbers"


@rule("DST019", "collective-disagreement", Severity.FATAL)
def check(errors: DdpErrors, exceptions: Exceptions) -> Iterator[Finding]:
    """Mismatching collectives, and models that differ between ranks."""
    for error in errors:
        row = exceptions.said(error)
        if row is None or error.kind not in ("collectives", "model"):
            continue
        facts: dict[str, Fact] = {f"rank {c[0]}": _describe(c) for c in error.calls}
        if error.kind == "model":
            message = f"The ranks built different models: {error.text[:160]} (parameter shape mismatch between ranks)."
            fix = Fix("Build the model from the same configuration on every rank", "code")
        else:
            told = "; ".join(_describe(c) for c in error.calls[:2])
            message = f"Ranks disagree about a collective (mismatch: different {_difference(error)}): {told}."
            fix = Fix(
                (
                    "Let every rank take the same path: a dummy input where a batch lacks a part, "
                    "decisions reduced over ranks first"
                ),
                "code",
            )
        yield from_exception(
            row,
            message,
            ranks=(),
            facts=facts,
            confidence=Confidence.LIKELY,
            fixes=(fix, Fix("Compare the batches of these ranks at that step", "investigate")),
            leaves=frozenset({PROCESS_DIED, PEER_ABSENT}),
        )
