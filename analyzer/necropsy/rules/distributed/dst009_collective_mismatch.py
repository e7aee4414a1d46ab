"""Ranks of a group enter collectives that do not match

What it means
    The members of a group take part in a collective by calling the same operation, in the
    same order, with as many elements of the same type. Here they did not: NCCL then hangs,
    or mixes up the data of two operations without an error.

Why it happens
    A branch that only some ranks take (logging, evaluation, an empty batch, a frozen layer),
    parameters in another order, batches or vocabularies of unequal size, one rank in another
    precision.

How to confirm
    The dumps hold the Python stack of each side; both lines are named here. Run once more
    with TORCH_DISTRIBUTED_DEBUG=DETAIL, which compares each collective before it starts.

How to fix
    Call the collective on every rank, in the same order; give ranks without data an empty or
    padded tensor of the same size; use all_gather of sizes before uneven exchanges.

Limits
    The ranks outside the majority are suspects; where two sides are of one size, nobody is.
    Operations that allow uneven sizes (all_to_all, gather, scatter, uneven lists, batches)
    are compared by name only, sends and receives not at all. The first disagreement of a
    group is reported; later ones follow from it.

References
    - https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html
    - https://docs.pytorch.org/docs/stable/distributed.html#torch-distributed-debug
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.conditions import GARBAGE, PEER_ABSENT, PROCESS_DIED
from necropsy.evidence._flight_jobs import Job
from necropsy.evidence._flight_match import Mismatch
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.flight_entries import FlightEntries
from necropsy.finding import Confidence, Fact, Finding, Fix, Place, Related, Severity
from necropsy.rule import rule
from necropsy.rules.distributed import _flight_words as words

_FIXES: Final[dict[str, str]] = {
    "operation": "Let all ranks of the group take the same path: the same collectives in the same order",
    "size": "Give every rank a tensor of the same number of elements, padded where it has less data",
    "type": "Use one dtype on all ranks (autocast, checkpoints and default dtypes differ easily)",
}
_DETAIL: Final = Fix(
    "Run once more with TORCH_DISTRIBUTED_DEBUG=DETAIL: it stops at the first collective that differs",
    "env",
    "safe",
    "TORCH_DISTRIBUTED_DEBUG=DETAIL",
)


@rule("DST009", "collective-mismatch", Severity.ERROR, aliases=("collective-desync",))
def check(entries: FlightEntries, exceptions: Exceptions | None) -> Iterator[Finding]:
    """One finding for each group's first disagreement."""
    for attempt, case in enumerate(entries.cases(), words.last_attempt(exceptions)):
        for mismatch in case.mismatches:
            yield _finding(case.job, mismatch, attempt)


def _finding(job: Job, m: Mismatch, attempt: int) -> Finding:
    shown = m.suspects[0]
    anchor = words.anchor(job, shown, m.entries[shown])
    return Finding(
        message=_message(job, m),
        anchor=anchor,
        severity=Severity.ERROR,
        confidence=Confidence.LIKELY if m.decided else Confidence.POSSIBLE,
        code=words.distinct(_places(job, m)),
        related=tuple(
            Related(words.anchor(job, s[0], m.entries[s[0]]), f"what {words.ranks(s)} called") for s in m.sides[:8]
        ),
        facts=_facts(job, m),
        fixes=(Fix(_FIXES[m.what], "code"), _DETAIL),
        ranks=m.suspects,
        leaves=frozenset({PEER_ABSENT, PROCESS_DIED, GARBAGE}),
        seq=words.AFTERWARDS,
        attempt=attempt,
        process=words.process_of(m.suspects),
        event=f"flight mismatch@{anchor.input}:{m.group}",
        confirms=True,
    )


def _called(job: Job, m: Mismatch, side: tuple[int, ...]) -> str:
    dump = job.dumps[side[0]]
    call = dump.calls[dump.entries.call[m.entries[side[0]]]]
    return call.op if m.what == "operation" else words.shape(call)


def _message(job: Job, m: Mismatch) -> str:
    sides = "; ".join(f"{words.ranks(s)}: {_called(job, m, s)}" for s in m.sides[:3])
    what = {"operation": "call different operations", "size": "bring different sizes", "type": "bring different types"}
    end = "their results cannot be trusted" if m.complete else "it cannot end"
    where = f"collective #{m.number} of {job.groups[m.group]}"
    undetermined = "" if m.decided else "; which side is wrong is undetermined"
    return f"As {where} the ranks {what[m.what]} ({sides}): {end}{undetermined}."


def _places(job: Job, m: Mismatch) -> list[Place]:
    order = [s for s in m.sides if set(s) <= set(m.suspects)] + [s for s in m.sides if not set(s) <= set(m.suspects)]
    exactness = "line" if m.decided else "function"
    return [p for s in order for p in words.place(job, s[0], m.entries[s[0]], f"called by {words.ranks(s)}", exactness)]


def _facts(job: Job, m: Mismatch) -> dict[str, Fact]:
    facts: dict[str, Fact] = {"differs in": m.what, "complete": m.complete, "majority": m.decided}
    for side in m.sides[:4]:
        facts[words.ranks(side)] = words.entry(job, side[0], m.entries[side[0]])
    return facts
