"""Everything that the sources say, as a client's tree shows it: one entry a finding, worst and dearest first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from pygls.uris import from_fs_path

from necropsy_lsp.describe import cost
from necropsy_lsp.evidence import input_uri
from necropsy_lsp.session import Session
from necropsy_lsp.sources import Source
from necropsy_lsp.stored import Anchor, StoredFinding
from necropsy_lsp.suppress import silenced
from necropsy_lsp.text import split_lines

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

_RANK: Final = {"fatal": 0, "error": 1, "warning": 2, "note": 3}
_MOST: Final = 2000  # entries of one answer
_RELATED: Final = 20


class Evidence(Struct, frozen=True):
    """A quoted line of an input: `line` counts from 0, `uri` is empty where the input is not on this machine."""

    label: str
    input: str
    uri: str
    line: int


class Known(Struct, frozen=True, rename="camel"):
    """One finding as it stands now.

    `uri` and `line` (from 0) are where it stands in a local file, empty and -1 where that is
    not known; `file` is what the report calls it. `ns` and `share` are the cost, -1 where it
    is unknown; `price` says it in words. `source` is the report or input it came from.
    """

    fingerprint: str
    rule: str
    name: str
    severity: str
    role: str
    message: str
    uri: str
    line: int
    file: str
    function: str
    exactness: str
    stale: bool
    ns: int
    share: float
    price: str
    ranks: list[int]
    count: int
    fixes: list[str]
    evidence: list[Evidence]
    source: str


def known(server: NecropsyServer) -> list[Known]:
    """Every finding that the settings show, of several sources once."""
    found: dict[str, Known] = {}
    stands = _Standing(server)
    for source in server.session.all_sources():
        for finding in source.findings:
            if finding.fingerprint in found or not server.session.settings.shows(finding.rule):
                continue
            if (entry := stands.entry(finding, source)) is not None:
                found[finding.fingerprint] = entry
    return sorted(found.values(), key=_order)[:_MOST]


def _order(entry: Known) -> tuple[object, ...]:
    return (entry.role != "root", _RANK[entry.severity], -entry.ns, entry.file, entry.line)


class _Standing:
    """Where findings stand in the documents of this moment; each document is looked at once."""

    def __init__(self, server: NecropsyServer) -> None:
        self._server = server
        self._session: Session = server.session
        self._lines: dict[Path, dict[str, tuple[int, bool]]] = {}

    def entry(self, finding: StoredFinding, source: Source) -> Known | None:
        """The finding in its place; None where a comment in the file silences it."""
        place = finding.code[0] if finding.code else None
        uri, line, stale = "", -1, False
        for path in self._session.find_sources(place.file, source.project) if place is not None else ():
            at = self._shown(path).get(finding.fingerprint)  # it stands in the file that holds what was quoted
            if at is not None:
                uri, (line, stale) = from_fs_path(str(path)) or "", at
                break
        else:
            one = self._session.find_source(place, source.project) if place is not None else None
            if one and place and place.line and self._silenced(one, place.line - 1, finding.rule):
                return None
        price = finding.cost
        return Known(
            fingerprint=finding.fingerprint,
            rule=finding.rule,
            name=finding.name,
            severity=finding.severity,
            role=finding.role,
            message=finding.message,
            uri=uri,
            line=line,
            file=place.file if place is not None else "",
            function=place.function if place is not None else "",
            exactness=place.exactness if place is not None else "",
            stale=stale,
            ns=price.ns if price.ns is not None and price.basis != "unknown" else -1,
            share=price.share if price.share is not None and price.basis != "unknown" else -1.0,
            price=cost(finding),
            ranks=finding.ranks,
            count=finding.count,
            fixes=[fix.title for fix in finding.fixes],
            evidence=list(_evidence(finding, source.project)),
            source=source.key,
        )

    def _shown(self, path: Path) -> dict[str, tuple[int, bool]]:
        if path not in self._lines:
            found: dict[str, tuple[int, bool]] = {}
            try:
                document = self._server.workspace.get_text_document(from_fs_path(str(path)) or "")
                for shown in self._session.findings(document):
                    if shown.place_index == 0:
                        found.setdefault(shown.finding.fingerprint, (shown.line, shown.stale))
            except (OSError, UnicodeDecodeError):  # gone or not text: nothing is known of it
                found = {}
            self._lines[path] = found
        return self._lines[path]

    def _silenced(self, path: Path, line: int, rule: str) -> bool:
        document = self._server.workspace.get_text_document(from_fs_path(str(path)) or "")
        try:
            lines = split_lines(document.source)
        except (OSError, UnicodeDecodeError):
            return False
        return line < len(lines) and silenced(lines, line, line, rule)


def _evidence(finding: StoredFinding, project: Path) -> Iterator[Evidence]:
    own = [finding.anchor] if finding.anchor.input else []
    for anchor in [*own, *finding.related[:_RELATED]]:
        yield Evidence(_label(anchor), anchor.input, input_uri(project, anchor.input) or "", max(anchor.line - 1, 0))


def _label(anchor: Anchor) -> str:
    return anchor.label or anchor.text.strip()[:200]
