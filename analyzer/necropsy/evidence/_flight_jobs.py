"""Flight-recorder dumps to jobs: which dumps belong together, and which groups their entries speak of.

A folder may hold the dumps of several runs, a run's dumps may lie in one folder a host
or a rank. Dumps are one job as long as no rank comes twice. A process group is known by
its name and its members together: names are counters on some versions, hashes of the
members on others, and a split group may share its parent's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.flight import COMPLETED, RETIRED, FlightDump

_RANK_AT_END: Final = re.compile(r"\d+(\.\w+)*$")
WORLD: Final = ("0", "default_pg")  # as init_process_group names it


class Group(Struct, frozen=True):
    """A process group of a job. `members` is empty where no dump tells them."""

    name: str
    description: str
    members: tuple[int, ...]

    def __str__(self) -> str:
        told = self.description not in ("", "undefined", self.name)
        return f"group {self.name}" + (f" ({self.description})" if told else "")


class Job(Struct):
    """The dumps of one run by rank.

    `groups` are all its process groups; `ids[rank]` turns a dump's group indexes into
    indexes of `groups`. `active_only`: dumps that leave out completed entries (torch's
    onlyActive), in which the absence of an entry can mean that it completed.
    """

    dumps: dict[int, FlightDump]
    groups: list[Group] = field(default_factory=list)
    ids: dict[int, list[int]] = field(default_factory=dict)
    active_only: bool = False

    @property
    def world(self) -> frozenset[int]:
        """Every rank that is known of, with a dump or without."""
        return frozenset(self.dumps).union(*(g.members for g in self.groups))

    @property
    def without_dump(self) -> frozenset[int]:
        """Ranks that groups name, of which there is no dump."""
        return self.world - frozenset(self.dumps)


def jobs_of(dumps: Iterable[FlightDump]) -> list[Job]:
    """The jobs, in the order in which their first dumps were read."""
    buckets: dict[tuple[str, str], dict[int, FlightDump]] = {}
    found: list[dict[int, FlightDump]] = []
    for dump in dumps:
        if dump.rank is None:
            continue
        path = PurePath(dump.anchor.input.replace("\\", "/"))
        bucket = buckets.setdefault((str(path.parent), _RANK_AT_END.sub("", path.name)), {})
        if dump.rank in bucket:
            found.append({dump.rank: dump})  # the same rank twice under one name: somebody's copies
        else:
            bucket[dump.rank] = dump
    merged: list[dict[int, FlightDump]] = []
    for bucket in (*buckets.values(), *found):
        home = next((m for m in merged if _same_run(m, bucket)), None)
        if home is None:
            merged.append(dict(bucket))
        else:
            home.update(bucket)
    return [_job(m) for m in merged]


def _same_run(job: dict[int, FlightDump], bucket: dict[int, FlightDump]) -> bool:
    """Whether the dumps of a bucket can be of the same run: no rank comes twice, and the groups know both."""
    if job.keys() & bucket.keys():
        return False
    worlds = [frozenset(r for d in part.values() for g in d.groups for r in g.ranks) for part in (job, bucket)]
    return all(not w or w >= bucket.keys() | job.keys() for w in worlds)


def _job(dumps: dict[int, FlightDump]) -> Job:
    job = Job(dict(sorted(dumps.items())))
    told: dict[str, list[tuple[int, ...]]] = {}
    for dump in job.dumps.values():
        for g in dump.groups:
            if g.ranks and g.ranks not in told.setdefault(g.name, []):
                told[g.name].append(g.ranks)
    users: dict[tuple[str, str], set[int]] = {}
    for rank, dump in job.dumps.items():
        for g in dump.groups:
            users.setdefault((g.name, g.description), set()).add(rank)
    index: dict[tuple[str, tuple[int, ...]], int] = {}
    for rank, dump in job.dumps.items():
        ids = job.ids[rank] = []
        for g in dump.groups:
            members = g.ranks or _members(rank, g.name, g.description, told, users, tuple(job.dumps))
            known = index.setdefault((g.name, members), len(job.groups))
            if known == len(job.groups):
                job.groups.append(Group(g.name, g.description, members))
            ids.append(known)
    job.active_only = _active_only(job.dumps.values())
    return job


def _members(
    rank: int,
    name: str,
    description: str,
    told: dict[str, list[tuple[int, ...]]],
    users: dict[tuple[str, str], set[int]],
    everybody: Sequence[int],
) -> tuple[int, ...]:
    """Members of a group whose ranks its dump does not list (gloo's, and those of PyTorch 2.2)."""
    for ranks in told.get(name, ()):
        if rank in ranks:
            return ranks
    if name in WORLD or description in WORLD:
        # Ranks are counted without gaps, so that a gap is a rank without a dump.
        gaps = max(everybody) + 1 - len(everybody)
        return tuple(range(max(everybody) + 1)) if gaps <= len(everybody) else tuple(everybody)
    # Before 2.4 an unnamed group's number is the rank's own: the same number can be another group elsewhere.
    return tuple(sorted(users[name, description])) if description else ()


def _active_only(dumps: Iterable[FlightDump]) -> bool:
    """No entry is done, and records are missing between or before the entries."""
    gaps = False
    for d in dumps:
        if any(s & RETIRED or s == COMPLETED for s in d.entries.state):
            return False
        records = d.entries.record
        gaps = gaps or bool(len(records) and records[-1] - records[0] >= len(records))
        gaps = gaps or bool(len(records) and records[0] > 0)
        gaps = gaps or bool(not len(records) and any(s.enqueued > 0 for s in d.status.values()))
    return gaps
