"""Which ranks did not take part in a collective that others waited in.

In order of trust: torch's desync report; the watchdog's counters, compared within one
process group only; the ranks that are seen in the inputs and do not complain.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from necropsy_parsers.messages.collective_timeout import CollectiveTimeout

from necropsy.evidence.activity import Activity
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.lagging_ranks import LaggingRankRows
from necropsy.evidence.nccl_communicators import NcclCommunicators
from necropsy.evidence.watchdog_counters import WatchdogCounterRows


class Suspects(Struct, frozen=True):
    """Ranks that did not join, how that is known (a clause about them, and about one), what the first said last."""

    ranks: tuple[int, ...] = ()
    how: str = ""
    how_one: str = ""
    last: str = ""

    @property
    def clause(self) -> str:
        """How it is known, in the right number."""
        return self.how_one if len(self.ranks) == 1 else self.how


NOBODY = Suspects()


def reported(attempt: int, lagging: LaggingRankRows, activity: Activity) -> Suspects:
    """The ranks that torch's desync report names."""
    for row in lagging:
        if row.attempt == attempt:
            words = last_words(row.ranks, activity)
            return Suspects(row.ranks, "torch's desync report names them", "torch's desync report names it", words)
    return NOBODY


def idle(attempt: int, counters: WatchdogCounterRows, activity: Activity) -> Suspects:
    """Ranks of a group with nothing outstanding while others of the same group wait in a later work."""
    groups: dict[str, list[tuple[int, int, int]]] = {}
    for c in counters:
        if c.attempt == attempt and c.rank is not None and c.group:
            groups.setdefault(c.group, []).append((c.rank, c.enqueued, c.completed))
    found: set[int] = set()
    for rows in groups.values():
        most = max(enqueued for _, enqueued, _ in rows)
        behind = {rank for rank, enqueued, completed in rows if enqueued == completed and enqueued < most}
        if any(completed < enqueued for _, enqueued, completed in rows):
            found |= behind
    ranks = tuple(sorted(found))
    if not ranks:
        return NOBODY
    words = last_words(ranks, activity)
    return Suspects(
        ranks,
        "their counters stand still while the others wait",
        "its counter stands still while the others wait",
        words,
    )


def quiet(
    timeouts: Sequence[CollectiveTimeout],
    attempt: int,
    activity: Activity,
    communicators: NcclCommunicators,
    exceptions: Exceptions,
) -> Suspects:
    """Ranks that are seen and do not complain; of these the ones that failed, if any did."""
    waiting = {t.rank for t in timeouts if t.rank is not None}
    pids = {t.origin.pid for t in timeouts if t.origin.pid is not None}
    return silent(waiting, pids, attempt, activity, communicators, exceptions)


def silent(
    waiting: set[int],
    pids: set[int],
    attempt: int,
    activity: Activity,
    communicators: NcclCommunicators,
    exceptions: Exceptions,
) -> Suspects:
    """Ranks that are seen and not among the `waiting` ones; `pids` are processes that are known to wait."""
    seen = set(activity.ranks(attempt))
    if _complete(communicators):
        seen |= {c.rank for c in communicators if c.attempt == attempt}
    seen |= _the_one_missing(waiting)
    ranks = tuple(sorted((seen - waiting).intersection(exceptions.ranks_ended(attempt)) or seen - waiting))
    if not waiting or not ranks:
        return NOBODY
    return Suspects(ranks, "they do not complain", "it does not complain", last_words(ranks, activity, pids))


def _the_one_missing(waiting: set[int]) -> set[int]:
    """Ranks count from 0 without gaps: if all but one below the highest complain, that one exists and does not."""
    highest = max(waiting, default=0)
    if len(waiting) < 2 or highest != len(waiting):  # one of `highest + 1` is missing
        return set()
    return set(range(highest + 1)) - waiting


def _complete(communicators: NcclCommunicators) -> bool:
    """Whether every rank of the largest communicator reports itself: then a silent rank is really silent."""
    size = max((c.nranks for c in communicators), default=0)
    ranks = {c.rank for c in communicators if c.nranks == size}
    return len(ranks) == size > 0 and max(ranks) == size - 1


def last_words(ranks: Sequence[int], activity: Activity, pids: Collection[int] = ()) -> str:
    """The last line that the first of these ranks wrote; `pids` are processes of others."""
    words = activity.words_of_rank(ranks[0]) if ranks else ""
    if not words and len(ranks) == 1:  # a process that never names its rank: the one left when the others are known
        words = activity.words_of_nameless(pids)
    return words[:120]
