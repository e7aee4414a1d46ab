"""`.necropsy/*.json` to findings: the reports that `necropsy analyze --save` left in a project.

The files are read as untrusted data: sizes are limited, anything that is not a
`necropsy/1` report is refused with a sentence, and nothing in it is executed.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from necropsy.report import SCHEMA
from necropsy.store import FOLDER

MAX_BYTES: Final = 64 << 20  # far above any real report; keeps a stray file from filling memory

Fact = str | int | float | bool | None | list[str | int | float | bool | None]


class Place(msgspec.Struct, frozen=True):
    """A place of the user's program, as in `code[]` of the report; `line` is 1-based."""

    file: str
    line: int | None
    end_line: int | None = None
    function: str = ""
    text: str = ""
    exactness: str = "line"
    how: str = ""


class Anchor(msgspec.Struct, frozen=True):
    """A quoted line of an input; `label` is empty for a finding's own anchor."""

    input: str
    line: int
    text: str = ""
    label: str = ""


class Cost(msgspec.Struct, frozen=True):
    """Nanoseconds and share of a step; `basis` is `measured`, `estimated` or `unknown`."""

    ns: int | None = None
    share: float | None = None
    basis: str = "unknown"


class Fix(msgspec.Struct, frozen=True):
    """A next step; `kind` and `safety` as in `necropsy.finding.Fix`."""

    title: str
    kind: str = "investigate"
    safety: str = "display-only"
    command: str = ""


class StoredFinding(msgspec.Struct, frozen=True):
    """What an editor shows of a finding; unknown fields of the report are ignored."""

    rule: str
    severity: Literal["fatal", "error", "warning", "note"]
    message: str
    code: list[Place]
    anchor: Anchor
    fingerprint: str
    related: list[Anchor] = []
    name: str = ""
    confidence: str = "certain"
    role: str = "root"
    facts: dict[str, Fact] = {}
    cost: Cost = Cost()
    ranks: list[int] = []
    fixes: list[Fix] = []
    count: int = 1


class StoredReport(msgspec.Struct, frozen=True):
    """A report file; `schema` is checked before anything is believed."""

    schema: str
    findings: list[StoredFinding]


@dataclass(frozen=True, slots=True)
class Stored:
    """A finding and the project folder whose `.necropsy/` held it (inputs are named relative to it)."""

    project: Path
    finding: StoredFinding


class UnusableReport(Exception):
    """A file under `.necropsy/` that cannot be shown; the text says why."""


def read_report(path: Path) -> StoredReport:
    """Decode one report file. Raises `UnusableReport` when it is none, too big or unreadable."""
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):  # opening a named pipe would block the server
            raise UnusableReport("not a regular file")
        if info.st_size > MAX_BYTES:
            raise UnusableReport(f"larger than {MAX_BYTES >> 20} MiB")
        report = msgspec.json.decode(path.read_bytes(), type=StoredReport)
    except (OSError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UnusableReport(str(error)) from error
    if report.schema != SCHEMA:
        raise UnusableReport(f"schema {report.schema[:40]!r}, expected {SCHEMA!r}")
    return report


@dataclass(slots=True)
class ReportStore:
    """Reports of the open projects, decoded again only when a file's size or time changes.

    `complaints` collects one sentence for each file that could not be used; the caller
    shows and clears them.
    """

    complaints: list[str] = field(default_factory=list)
    _cache: dict[Path, tuple[tuple[int, int], list[StoredFinding]]] = field(default_factory=dict)

    def findings(self, projects: Iterable[Path]) -> list[Stored]:
        """Findings of all reports below `projects`, newest report first; a repeated finding counts once."""
        files: list[tuple[int, Path, Path]] = []
        for project in projects:
            for path in sorted((project / FOLDER).glob("*.json")):
                try:
                    files.append((path.stat().st_mtime_ns, path, project))
                except OSError:  # removed since it was listed
                    continue
        found: dict[tuple[str, Place | None], Stored] = {}
        for _, path, project in sorted(files, reverse=True):
            for finding in self._read(path):
                place = finding.code[0] if finding.code else None
                found.setdefault((finding.fingerprint, place), Stored(project, finding))
        return list(found.values())

    def _read(self, path: Path) -> list[StoredFinding]:
        try:
            info = path.stat()
        except OSError:
            return []
        version = (info.st_mtime_ns, info.st_size)
        if (known := self._cache.get(path)) is not None and known[0] == version:
            return known[1]
        try:
            findings = read_report(path).findings
        except UnusableReport as error:
            self.complaints.append(f"{path}: {error}")
            findings = []
        self._cache[path] = (version, findings)
        return findings
