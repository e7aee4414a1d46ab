"""`.necropsy/*.json` to findings: the reports that `necropsy analyze --save` left in a project.

The files are read as untrusted data: sizes are limited, anything that is not a
`necropsy/1` report is refused with a sentence, and nothing in it is executed.
"""

from __future__ import annotations

import gc
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct, field

from necropsy.report import SCHEMA
from necropsy.store import FOLDER

_LARGE: Final = 4 << 20
MAX_BYTES: Final = 64 << 20  # far above any real report; keeps a stray file from filling memory

Fact = str | int | float | bool | None | list[str | int | float | bool | None]


class Place(msgspec.Struct, frozen=True, gc=False):
    """A place of the user's program, as in `code[]` of the report; `line` is 1-based."""

    file: str
    line: int | None
    end_line: int | None = None
    function: str = ""
    text: str = ""
    exactness: str = "line"
    how: str = ""


class Anchor(msgspec.Struct, frozen=True, gc=False):
    """A quoted line of an input; `label` is empty for a finding's own anchor."""

    input: str
    line: int
    text: str = ""
    label: str = ""


class Cost(msgspec.Struct, frozen=True, gc=False):
    """Nanoseconds and share of a step; `basis` is `measured`, `estimated` or `unknown`."""

    ns: int | None = None
    share: float | None = None
    basis: str = "unknown"


class Fix(msgspec.Struct, frozen=True, gc=False):
    """A next step; `kind` and `safety` as in `necropsy.finding.Fix`."""

    title: str
    kind: str = "investigate"
    safety: str = "display-only"
    command: str = ""


class StoredFinding(msgspec.Struct, frozen=True, gc=False):
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


class _Head(msgspec.Struct, frozen=True):
    """What is read of a report of which nothing else is known."""

    schema: str


class UnusableReport(Exception):
    """A file under `.necropsy/` that cannot be shown; the text says why, `newer` that a newer server could."""

    def __init__(self, why: str, newer: bool = False) -> None:
        super().__init__(why)
        self.newer = newer


def read_report(path: Path) -> StoredReport:
    """Decode one report file. Raises `UnusableReport` when it is none, too big or unreadable."""
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):  # opening a named pipe would block the server
            raise UnusableReport("not a regular file")
        if info.st_size > MAX_BYTES:
            raise UnusableReport(f"larger than {MAX_BYTES >> 20} MiB")
        data = path.read_bytes()
    except OSError as error:
        raise UnusableReport(error.strerror or str(error)) from error
    collecting = gc.isenabled()
    gc.disable()  # nothing of a report is garbage, and looking for some takes as long as reading it
    try:
        report = msgspec.json.decode(data, type=StoredReport)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        _check_schema(data)  # of another schema, the findings may well look different
        raise UnusableReport(f"not a report: {error}") from error
    finally:
        if collecting:
            if len(data) > _LARGE:
                gc.freeze()  # nor is any of it later, while an editor waits: it has no cycles
            gc.enable()
    if report.schema != SCHEMA:
        _check_schema(data)
    return report


def _check_schema(data: bytes) -> None:
    """Raises `UnusableReport` for a report of another schema."""
    try:
        schema = msgspec.json.decode(data, type=_Head).schema
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return
    if schema == SCHEMA:
        return
    family, _, number = schema.partition("/")
    ours, _, known = SCHEMA.partition("/")
    newer = family == ours and number.isascii() and number.isdigit() and len(number) < 9 and int(number) > int(known)
    hint = "; install the Necropsy that wrote it, or analyze again with this one" if newer else ""
    raise UnusableReport(f"schema {schema[:40]!r}, expected {SCHEMA!r}{hint}", newer)


class ReportFile(Struct, frozen=True, eq=False):
    """One report of a project: where it is, when it was written, what it says."""

    path: Path
    project: Path
    stamp: int
    findings: tuple[StoredFinding, ...]


class ReportStore(Struct):
    """Reports of the open projects, decoded again only when a file's size, time or identity changes.

    `complaints` collects each file that could not be used; the caller shows and clears them.
    """

    complaints: list[tuple[Path, UnusableReport]] = field(default_factory=list)
    _cache: dict[Path, tuple[tuple[int, int, int], ReportFile]] = field(default_factory=dict)

    def read(self, projects: Iterable[Path]) -> list[ReportFile]:
        """The reports stored in these project folders, newest first; what is no longer there is forgotten."""
        cache: dict[Path, tuple[tuple[int, int, int], ReportFile]] = {}
        for project in projects:
            for path in sorted((project / FOLDER).glob("*.json")):
                if path not in cache and (entry := self._one(path, project)) is not None:
                    cache[path] = entry
        self._cache = cache
        return sorted((report for _, report in cache.values()), key=lambda r: (-r.stamp, r.path))

    def _one(self, path: Path, project: Path) -> tuple[tuple[int, int, int], ReportFile] | None:
        try:
            info = path.stat()
        except OSError:  # removed since it was listed
            return None
        version = (info.st_mtime_ns, info.st_size, info.st_ino)
        known = self._cache.get(path)
        if known is not None and known[0] == version:
            return known
        findings: tuple[StoredFinding, ...] = ()
        try:
            findings = tuple(read_report(path).findings)
        except UnusableReport as error:
            self.complaints.append((path, error))
        return version, ReportFile(path, project, info.st_mtime_ns, findings)
