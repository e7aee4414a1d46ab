"""The ranks of a job as rows: what each one met first, its part in the story, its last words.

rank 3     first error OOM005, root                    step 1210 loss 0.41
rank 0-2   first error CRS017, died with it            step 1211 loss 0.41
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from necropsy_parsers.records import Origin

from necropsy.conditions import PEER_ABSENT, PROCESS_DIED
from necropsy.evidence import Evidence
from necropsy.evidence.activity import Activity
from necropsy.evidence.collective_timeouts import CollectiveTimeouts
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.nccl_communicators import NcclCommunicators
from necropsy.finding import Finding, Role, Severity
from necropsy.report import Run

ENDED = {Role.ROOT: "failed", Role.CASCADE: "died with it", Role.SYMPTOM: ""}


def runs(evidence: Evidence, findings: Sequence[Finding]) -> list[Run]:
    """One row a rank that the inputs show, in order of rank; empty for jobs of a single process."""
    activity = evidence.get(Activity)
    seen: set[int] = {r for f in findings for r in f.ranks}
    seen |= {row.rank for row in activity if row.rank is not None}
    seen |= _ranks(e.origin for e in evidence.get(Exceptions))
    seen |= {t.rank for t in evidence.get(CollectiveTimeouts) if t.rank is not None}
    seen |= {c.rank for c in evidence.get(NcclCommunicators)}
    if len(seen) < 2:
        return []
    last = {row.rank: row.last for row in sorted(activity, key=lambda r: r.seq) if row.last.strip()}
    waiting = {t.rank for t in evidence.get(CollectiveTimeouts)}
    return [_run(rank, findings, last.get(rank, ""), rank in waiting) for rank in sorted(seen)]


def _ranks(origins: Iterable[Origin]) -> set[int]:
    return {o.rank for o in origins if o.rank is not None}


def _run(rank: int, findings: Sequence[Finding], last: str, waiting: bool) -> Run:
    own = [f for f in findings if rank in f.ranks or f"rank {rank}" in f.processes]
    failed = sorted(
        (f for f in own if f.severity >= Severity.ERROR), key=lambda f: (f.role is not Role.ROOT, f.attempt, f.seq)
    )
    if failed:
        first = failed[0]
        ended = ENDED[first.role]
        if PEER_ABSENT in first.shows and PROCESS_DIED not in first.shows and first.role is Role.ROOT:
            ended = "did not join" if rank in first.ranks else "waited"
        return Run(f"rank {rank}", (rank,), ended, first.rule, first.role.value, last)
    return Run(f"rank {rank}", (rank,), "waited" if waiting else "", "", "", last)
