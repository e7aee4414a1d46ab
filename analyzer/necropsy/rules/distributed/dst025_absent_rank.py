"""Others wait for a rank that did not come to a collective

What it means
    A collective ends when every member of its group has entered it. Flight-recorder dumps
    show for each rank what it enqueued and what is outstanding; this rank is where the
    waiting began: others wait for it, and it waits for none of them.

Why it happens
    On the host: an exception that was caught, a slow checkpoint or evaluation on one rank, a
    data loader without data, a lock (the GIL), a branch that only some ranks take. On the
    GPU: an error or a kernel that does not end; the rank enqueued what the others did, but
    its work is not done. No dump: the process was killed, frozen, or is on a node that is gone.

How to confirm
    `py-spy dump --pid` on a rank that hangs; its log after the last collective named here;
    for a GPU, dmesg (Xid) and CUDA_LAUNCH_BLOCKING=1. TORCH_NCCL_ENABLE_TIMING=1 lets the
    next dump tell work that has started from work that has not.

How to fix
    Let every rank take the same path to the collective, or let it fail: an exception on one
    rank should end the job. Raise the timeout of the group if a rank may be this late.

Limits
    Needs the dumps of all ranks, from one hang. Dumps of a healthy job, taken while it runs,
    show ranks on their way and read like a hang; they are told apart where they contradict
    each other (taken one after the other), or where their files were written when nobody had
    waited for a second (lost in a copy) and no log shows a failure. Sends and receives have no numbers that
    two ranks share; they are matched by what is outstanding. Two ranks that stop at once can
    hide each other. When all members have entered and none is done, which GPU stopped is not
    known; that is said. A rank without a dump is likely, never certain.

References
    - https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html
    - https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from necropsy.conditions import PEER_ABSENT, PROCESS_DIED
from necropsy.evidence._flight_blame import CIRCLE, GPU, HOST, INCOMPLETE, NO_DUMP, STUCK, Blame
from necropsy.evidence._flight_jobs import Job
from necropsy.evidence._flight_waits import Wait
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.flight_entries import Case, FlightEntries
from necropsy.finding import Confidence, Fact, Finding, Fix, Place, Related, Severity
from necropsy.rule import rule
from necropsy.rules.distributed import _flight_words as words

SUSPECTS_MAX: Final = 8  # of more ranks than these, naming all as suspects says nothing

_FIXES: Final[dict[str, tuple[Fix, ...]]] = {
    HOST: (
        Fix("Read its log after its last collective: an exception, a slow path or a lock kept it"),
        Fix("Dump its Python stacks while it hangs", "command", command="py-spy dump --pid PID"),
    ),
    GPU: (
        Fix("Look for CUDA errors in its log and for Xids of its GPU", "command", command="dmesg | grep -i xid"),
        Fix("Run once more with CUDA_LAUNCH_BLOCKING=1 to find the kernel", "env", "safe", "CUDA_LAUNCH_BLOCKING=1"),
    ),
    NO_DUMP: (
        Fix("Look for its end in the logs of its node and of the scheduler: killed, out of memory, frozen"),
        Fix("If it left a dump, give it together with the others"),
    ),
    CIRCLE: (Fix("Use the process groups in the same order on every rank", "code"),),
    STUCK: (
        Fix("Let the next dump tell whose GPU has not begun", "env", "safe", "TORCH_NCCL_ENABLE_TIMING=1"),
        Fix("Check these ranks' GPUs and the links between them (Xid, NCCL_DEBUG=INFO)"),
    ),
    INCOMPLETE: (Fix("Give the dumps of all ranks together: analyze FOLDER"),),
}  # fmt: skip


class _Told(Struct, frozen=True):
    """What one kind of blame says."""

    message: str
    code: tuple[Place, ...]
    related: tuple[Related, ...] = ()
    confidence: Confidence = Confidence.LIKELY
    named: bool = True


@rule("DST025", "absent-rank", Severity.ERROR, aliases=("missing-rank", "collective-hang"))
def check(entries: FlightEntries, exceptions: Exceptions | None) -> Iterator[Finding]:
    """One finding for each kind of reason in each job."""
    for attempt, case in enumerate(entries.cases(), words.last_attempt(exceptions)):  # another job, another attempt
        if case.running and not exceptions:
            yield _running(case, attempt)
            continue
        for blame in case.verdict.blames:
            yield _finding(case, blame, attempt)


def _finding(case: Case, blame: Blame, attempt: int) -> Finding:
    job = case.job
    told = _TELL[blame.kind](case, blame)
    first = blame.waits[0]
    shown = next(iter(first.waiting))
    anchor = words.anchor(job, shown, first.waiting[shown])
    known = blame.kind != INCOMPLETE
    return Finding(
        message=told.message,
        anchor=anchor,
        severity=Severity.ERROR if known else Severity.NOTE,
        confidence=told.confidence,
        code=words.distinct(told.code),
        related=told.related[:8],
        facts=_facts(job, blame),
        fixes=_FIXES[blame.kind],
        ranks=blame.ranks if told.named else (),
        leaves=frozenset({PEER_ABSENT, PROCESS_DIED}) if known else frozenset(),
        seq=words.AFTERWARDS,
        attempt=attempt,
        process=words.process_of(blame.ranks),
        event=f"flight {blame.kind}@{anchor.input}",
        confirms=True,
    )


def _running(case: Case, attempt: int) -> Finding:
    """A note instead of all blames: nothing shows that anybody hangs."""
    wait = case.verdict.blames[0].waits[0]
    shown = next(iter(wait.waiting))
    return Finding(
        message=(
            f"These dumps do not show a hang, rather a job that was running: {case.running}. Who is behind in "
            f"{_name(case.job, wait)} cannot be blamed."
        ),
        anchor=words.anchor(case.job, shown, wait.waiting[shown]),
        severity=Severity.NOTE,
        confidence=Confidence.LIKELY,
        facts={"dumps": f"{len(case.job.dumps)} of {len(case.job.world)} ranks"},
        fixes=(Fix("Take the dumps again while the job hangs, of all ranks at once", "investigate"),),
        seq=words.AFTERWARDS,
        attempt=attempt,
        event=f"flight running@{case.job.dumps[shown].anchor.input}",
    )


def _facts(job: Job, blame: Blame) -> dict[str, Fact]:
    waiting = sorted({r for w in blame.waits for r in w.waiting} - set(blame.ranks))
    facts: dict[str, Fact] = {
        "waited for in": list(dict.fromkeys(_name(job, w) for w in blame.waits))[:6],
        "dumps": f"{len(job.dumps)} of {len(job.world)} ranks",
    }
    if waiting:
        facts["ranks that wait there"] = waiting
    if job.without_dump:
        facts["ranks without a dump"] = sorted(job.without_dump)
    return facts


def _name(job: Job, wait: Wait) -> str:
    return words.collective(wait.op, wait.number, job.groups[wait.group])


def _where(job: Job, wait: Wait, how: str, exactness: str = "line") -> tuple[Place, ...]:
    return next((p for r, e in wait.waiting.items() if (p := words.place(job, r, e, how, exactness))), ())


def _waits(wait: Wait, waiting: str) -> str:
    """`in which ranks 0 and 1 wait`, or for the other end of a message."""
    return f"{'in which' if wait.number >= 0 else 'for which'} {waiting} wait{_s(wait)}"


def _s(wait: Wait) -> str:
    return "s" if len(wait.waiting) == 1 else ""


def _last(job: Job, rank: int) -> int:
    """The newest entry of a rank's dump, -1 for none."""
    return len(job.dumps[rank].entries) - 1


def _host(case: Case, blame: Blame) -> _Told:
    job = case.job
    missed = {r: next(w for w in blame.waits if r in w.absent) for r in blame.ranks}
    wait = blame.waits[0]
    who = words.ranks(blame.ranks)
    waiting = words.ranks(wait.waiting.keys() - set(blame.ranks) or wait.waiting)
    one = len(blame.ranks) == 1
    what = "never entered" if wait.number >= 0 else "did not post the other end of"
    why = f"nothing that {'it' if one else 'they'} enqueued is outstanding"
    if not all(case.verdict.found.states[r].idle for r in blame.ranks):
        why = "others with the same work outstanding went on"
    code: list[Place] = []
    related = []
    for r in blame.ranks:
        code += _where(job, missed[r], f"never entered by rank {r}")
    for r in blame.ranks:
        code += words.place(job, r, _last(job, r), f"last in the dump of rank {r}")
        related.append(Related(words.anchor(job, r, _last(job, r)), f"the last that rank {r} enqueued"))
    return _Told(
        f"{who.capitalize()} {what} {_name(job, wait)}, {_waits(wait, waiting)}: {why}, so the "
        f"{'cause is' if one else 'causes are'} on the host after the last collective there.",
        tuple(code),
        tuple(related),
    )


def _gpu(case: Case, blame: Blame) -> _Told:
    job, states = case.job, case.verdict.found.states
    one = len(blame.ranks) == 1
    code: list[Place] = []
    related = []
    for r in blame.ranks:
        code += words.place(job, r, states[r].oldest, f"first that the GPU of rank {r} has not done")
        related.append(Related(words.anchor(job, r, states[r].oldest), f"the oldest outstanding of rank {r}"))
    wait = next(w for w in blame.waits if blame.ranks[0] in w.waiting)
    return _Told(
        f"The GPU{'' if one else 's'} of {words.ranks(blame.ranks)} stopped: {'it' if one else 'they'} enqueued "
        f"{_name(job, wait)} like the others, whose GPUs completed it; {'its' if one else 'their'} own did not.",
        tuple(code),
        tuple(related),
    )


def _no_dump(case: Case, blame: Blame) -> _Told:
    job, wait = case.job, blame.waits[0]
    one = len(blame.ranks) == 1
    return _Told(
        f"{words.ranks(blame.ranks).capitalize()} left no dump, and {words.ranks(wait.waiting)} wait in "
        f"{_name(job, wait)}, which all other members have entered: most likely "
        f"{'its process is' if one else 'their processes are'} gone or frozen.",
        _where(job, wait, "where the others wait", "function"),
    )


def _circle(case: Case, blame: Blame) -> _Told:
    job = case.job
    named = "; ".join(f"{words.ranks(w.waiting)} in {_name(job, w)}" for w in blame.waits[:3])
    code = [p for w in blame.waits for p in _where(job, w, f"where {words.ranks(w.waiting)} wait")]
    return _Told(
        f"{words.ranks(blame.ranks).capitalize()} wait for each other: {named}; "
        "they enter the groups in different orders.",
        tuple(code),
    )


def _stuck(case: Case, blame: Blame) -> _Told:
    job, wait = case.job, blame.waits[0]
    return _Told(
        f"All of {words.ranks(blame.ranks)} have entered {_name(job, wait)}, wait for nothing older, and none "
        "completes it: the GPU of one of them or the link between them stopped; the dumps do not tell which.",
        _where(job, wait, "where all of them wait", "function"),
        confidence=Confidence.POSSIBLE,
        named=len(blame.ranks) <= SUSPECTS_MAX,
    )


def _incomplete(case: Case, blame: Blame) -> _Told:
    job, wait = case.job, blame.waits[0]
    missing = len(job.without_dump)
    return _Told(
        f"{words.ranks(wait.waiting).capitalize()} wait{_s(wait)} in {_name(job, wait)}; for whom cannot be told, "
        f"since the dumps of {missing} of {len(job.world)} ranks are missing.",
        _where(job, wait, "where it waits", "function"),
        confidence=Confidence.POSSIBLE,
        named=False,
    )


_TELL: Final[dict[str, Any]] = {
    HOST: _host, GPU: _gpu, NO_DUMP: _no_dump, CIRCLE: _circle, STUCK: _stuck, INCOMPLETE: _incomplete,
}  # fmt: skip
