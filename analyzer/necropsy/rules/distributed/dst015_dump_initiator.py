"""One rank started the dump of debug information, the others followed

What it means
    When a rank detects a timeout it signals all ranks to dump. The rank that says "from this local
    rank" detected it first; those that observed the signal only followed.

Why it happens
    Every timeout with dumps enabled; it is no failure of its own.

How to confirm
    Compare the times of the signals; start reading with the initiator's log and dump.

How to fix
    Nothing; it tells where to look first.

Limits
    The initiator is a waiting rank, not the culprit: it noticed first.

References
    - https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.claim import from_record
from necropsy.evidence.dump_signals import DumpSignals
from necropsy.finding import Finding, Role, Severity
from necropsy.rule import rule


@rule("DST015", "dump-initiator", Severity.NOTE)
def check(signals: DumpSignals) -> Iterator[Finding]:
    """One note an attempt in which initiators and followers can be told apart."""
    for attempt in sorted({s.attempt for s in signals}):
        rows = [s for s in signals if s.attempt == attempt]
        started = sorted({s.rank for s in rows if s.initiator and s.rank is not None})
        followed = sorted({s.rank for s in rows if not s.initiator and s.rank is not None} - set(started))
        if not started or not followed:
            continue
        first = next(s for s in rows if s.initiator and s.rank is not None)
        who = ", ".join(map(str, started))
        yield from_record(
            first,
            (
                f"Rank {who} detected the timeout and started the dump; "
                f"the other {len(followed)} ranks only followed: read its log and dump first."
            ),
            Severity.NOTE,
            ranks=tuple(started),
            role=Role.SYMPTOM,
            facts={"initiators": started, "followers": followed},
        )
