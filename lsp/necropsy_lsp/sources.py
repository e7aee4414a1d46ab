"""Sources of findings to what each of them says of one file: stored reports, and what features publish."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct, field

from necropsy.provenance.paths import path_parts
from necropsy.store import FOLDER
from necropsy_lsp.stored import Place, ReportFile, ReportStore, StoredFinding, UnusableReport


class Named(Struct, frozen=True):
    """One place of a finding: the finding, which of its places, and where it came from."""

    finding: StoredFinding
    place_index: int
    project: Path
    source: str
    stamp: int

    @property
    def place(self) -> Place:
        """The place itself."""
        return self.finding.code[self.place_index]


class Source(Struct):
    """What one source says, by the name of the file that a place is in."""

    key: str
    project: Path
    stamp: int
    findings: tuple[StoredFinding, ...]
    _by_name: dict[str, list[int]] | None = None

    def about(self, name: str) -> Iterator[Named]:
        """The places in files called `name`."""
        for number in self._numbers().get(name, ()):
            finding = self.findings[number]
            for index, place in enumerate(finding.code):
                if file_name(place.file) == name:
                    yield Named(finding, index, self.project, self.key, self.stamp)

    def every(self) -> Iterator[Named]:
        """All places."""
        for name in self._numbers():
            yield from self.about(name)

    def _numbers(self) -> dict[str, list[int]]:
        """Which findings have a place in a file of that name; numbers, since there may be many."""
        if self._by_name is None:
            self._by_name = {}
            for number, finding in enumerate(self.findings):
                for name in {file_name(place.file) for place in finding.code}:
                    self._by_name.setdefault(name, []).append(number)
        return self._by_name


@lru_cache(maxsize=4096)
def file_name(path: str) -> str:
    """The last part of a reported path; empty for one that names no place."""
    parts = path_parts(path)
    return parts[-1] if parts else ""


class Sources(Struct):
    """Everything that is known, newest first; `version` grows with every change."""

    version: int = 0
    _reports: ReportStore = field(default_factory=ReportStore)
    _stored: dict[ReportFile, Source] = field(default_factory=dict)
    _published: dict[str, Source] = field(default_factory=dict)

    def publish(self, key: str, project: Path, findings: Sequence[StoredFinding]) -> None:
        """Replace what a source says."""
        self._published[key] = Source(key, project, time.time_ns(), tuple(findings))
        self.version += 1

    def withdraw(self, key: str) -> bool:
        """Forget a source; whether there was one."""
        gone = self._published.pop(key, None) is not None
        self.version += gone
        return gone

    def read(self, projects: Iterable[Path]) -> bool:
        """Look at the reports stored in these projects; whether any is new, changed or gone."""
        reports = self._reports.read(projects)
        stored: dict[ReportFile, Source] = {}
        for report in reports:  # the same object as before where the file did not change
            key = f"stored:{FOLDER}/{report.path.name}"
            known = self._stored.get(report)
            stored[report] = known or Source(key, report.project, report.stamp, report.findings)
        changed = list(stored) != list(self._stored)
        self._stored = stored
        self.version += changed
        return changed

    def complaints(self) -> list[tuple[Path, UnusableReport]]:
        """The reports that could not be used and were not told before."""
        told = list(self._reports.complaints)
        self._reports.complaints.clear()
        return told

    def all(self) -> list[Source]:
        """Every source, the newest first."""
        every = [*self._stored.values(), *self._published.values()]
        return sorted(every, key=lambda source: -source.stamp)

    def about(self, name: str) -> Iterator[Named]:
        """The places in files called `name`, of the newest source first."""
        for source in self.all():
            yield from source.about(name)
