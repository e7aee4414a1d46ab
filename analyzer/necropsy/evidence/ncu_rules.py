"""What NVIDIA's own rules said of profiled launches, with their estimates of what could be gained."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from necropsy_parsers.ncu.records import Launch
from necropsy_parsers.records import Anchor, Origin

from necropsy.evidence import Table
from necropsy.evidence._ncu_merge import merged
from necropsy.evidence.ncu_kernels import FORMATS, SUPPLY


class NcuRule(Struct, frozen=True):
    """One message of a rule about one launch."""

    anchor: Anchor
    origin: Origin
    seq: int
    process: int | None
    number: int
    function: str
    rule: str
    section: str
    kind: str
    title: str
    message: str
    global_gain: float | None
    local_gain: float | None
    focus: tuple[str, ...]


class NcuRules(Table[NcuRule]):
    """One row a message, in the order of the launches. A raw CSV has none."""

    name = "ncu_rules"
    row = NcuRule
    accepts = (Launch,)
    formats = FORMATS
    supply = SUPPLY
    columns: ClassVar[dict[str, str]] = {
        "anchor": "where the launch stands",
        "origin": "who wrote it, where it stands in a job's log",
        "seq": "that of the launch: with it, the row of ncu_kernels is found",
        "process": "process id of the launch",
        "number": "ID of the launch in the report",
        "function": "the kernel's name without namespaces, template and arguments",
        "rule": "identifier (SOLBottleneck, CPIStall, ...); empty in text pages, which do not print it",
        "section": "identifier of the section (SpeedOfLight, Occupancy, ...)",
        "kind": "OPT (an optimization), INF, WRN or ERR",
        "title": "heading, where it has one and the report was read",
        "message": "its words",
        "global_gain": "estimated speed-up of the kernel, percent; an optimistic ceiling",
        "local_gain": "estimated speed-up of one unit only, percent: never the kernel's, and never to be summed",
        "focus": "metrics that it rests on; reports only",
    }

    def __init__(self) -> None:
        super().__init__()
        self._launches: list[Launch] = []
        self._seen = False
        self._by_launch: dict[int, list[NcuRule]] = {}

    def add(self, record: Any) -> None:
        """Keep a launch until all are there."""
        self._launches.append(record)
        self._seen = True

    def finish(self) -> None:
        """One row a message of each launch; of a launch told twice, those of one telling."""
        for launch in merged(self._launches):
            self._take(launch)
        self._launches = []
        for row in self.rows:
            self._by_launch.setdefault(row.seq, []).append(row)

    def _take(self, launch: Launch) -> None:
        for r in launch.rules:
            self.rows.append(
                NcuRule(
                    launch.anchor,
                    launch.origin,
                    launch.seq,
                    launch.process,
                    launch.number,
                    launch.function,
                    r.rule,
                    r.section,
                    r.kind,
                    r.title,
                    r.message,
                    r.gain if r.scope == "global" else None,
                    r.gain if r.scope == "local" else None,
                    r.focus,
                )
            )

    def covered(self, formats: frozenset[str]) -> bool:
        """Whether a report was read; a job's log counts if a page stands in it."""
        return super().covered(formats) or self._seen

    def of(self, seq: int) -> list[NcuRule]:
        """The messages about the launch with that `seq`."""
        return self._by_launch.get(seq, [])
