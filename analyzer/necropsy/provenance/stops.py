"""Several notices of one stop of a job as one: a batch script, its steps and its launchers each tell of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from necropsy_parsers.messages.scheduler import JobStop

from necropsy.finding import Fact, Related

SHOWN: Final = 4  # further notices that a finding quotes


class Stop(Struct, frozen=True):
    """One stop of an attempt: the notice that tells most, and the others."""

    told: JobStop
    others: tuple[JobStop, ...]

    @property
    def related(self) -> tuple[Related, ...]:
        """The other notices, as anchors."""
        return tuple(Related(o.anchor, f"{o.by}: {o.kind.replace('-', ' ')}") for o in self.others[:SHOWN])

    @property
    def facts(self) -> dict[str, Fact]:
        """Who says it, job and nodes."""
        rows = (self.told, *self.others)
        nodes = sorted({r.host for r in rows if r.host})
        job = next((r.job for r in rows if r.job), "")
        facts: dict[str, Fact] = {"reported by": self.told.by}
        if job:
            facts["job"] = job
        if nodes:
            facts["node" if len(nodes) == 1 else "nodes"] = nodes[0] if len(nodes) == 1 else nodes[:16]
        return facts


def stops(rows: Iterable[JobStop], kinds: tuple[str, ...]) -> list[Stop]:
    """One stop an attempt: of the kinds asked for, the first kind that is reported."""
    found: list[Stop] = []
    asked = [r for r in rows if r.kind in kinds]
    for attempt in sorted({r.attempt for r in asked}):
        of_attempt = sorted((r for r in asked if r.attempt == attempt), key=lambda r: (kinds.index(r.kind), r.seq))
        found.append(Stop(of_attempt[0], tuple(of_attempt[1:])))
    return found


def named(stop: Stop) -> str:
    """The job in words: `Job 88 on node-3`, or `The job`."""
    facts = stop.facts
    job = f"Job {facts['job']}" if "job" in facts else "The job"
    return job + (f" on {facts['node']}" if "node" in facts else "")
