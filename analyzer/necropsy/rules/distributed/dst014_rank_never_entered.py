"""A rank never entered the collective that the others waited in

What it means
    The watchdog's counters, or torch's desync report, show which rank is to blame: it has nothing
    outstanding in the process group while the others wait in a later work.

Why it happens
    The rank does something else (evaluation, checkpoint, data), is stuck on the host, or took a
    branch without the collective.

How to confirm
    Its last lines, a stack of its process (`py-spy dump --pid`), its flight-recorder dump.

How to fix
    Let all ranks reach the collective; see what the rank was doing instead.

Limits
    Counters are compared within one process group; ranks that report none cannot be judged. If
    the rank failed before, that failure is the root and this its consequence.

References
    - https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.activity import Activity
from necropsy.evidence.collective_stacks import CollectiveStacks
from necropsy.evidence.collective_timeouts import CollectiveTimeouts
from necropsy.evidence.dump_signals import DumpSignals
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.lagging_ranks import LaggingRankRows
from necropsy.evidence.settings import Settings
from necropsy.evidence.watchdog_counters import WatchdogCounterRows
from necropsy.evidence.worker_groups import WorkerGroups
from necropsy.finding import Finding, Severity
from necropsy.rule import rule
from necropsy.suspects import idle, reported
from necropsy.timeouts import timeout_finding


@rule("DST014", "rank-never-entered", Severity.FATAL)
def check(
    timeouts: CollectiveTimeouts,
    lagging: LaggingRankRows,
    counters: WatchdogCounterRows,
    dumps: DumpSignals,
    stacks: CollectiveStacks,
    exceptions: Exceptions,
    settings: Settings,
    groups: WorkerGroups,
    activity: Activity,
) -> Iterator[Finding]:
    """The timeouts of an attempt, told with the rank that is to blame."""
    for attempt in sorted({t.attempt for t in timeouts}):
        suspects = reported(attempt, lagging, activity)
        if not suspects.ranks:
            suspects = idle(attempt, counters, activity)
        if suspects.ranks:
            rows = [t for t in timeouts if t.attempt == attempt]
            yield timeout_finding(rows, suspects, dumps, settings, groups, exceptions, stacks)
