"""Open Python documents to diagnostics on their lines: pushed, or given where the client asks for them."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import msgspec
from attrs import validators
from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.uris import from_fs_path
from pygls.workspace import TextDocument

from necropsy_lsp.convert import Look, diagnostic_of, nowhere, related_of
from necropsy_lsp.evidence import input_uri
from necropsy_lsp.feature import Feature
from necropsy_lsp.pages import page_uri
from necropsy_lsp.placed import Shown
from necropsy_lsp.session import path_of
from necropsy_lsp.stored import Place, StoredFinding
from necropsy_lsp.text import Document, split_lines

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

PULL: Final = "text_document.diagnostic"
REFRESH: Final = "workspace.diagnostics.refresh_support"
_LINKS: Final = 10_000  # findings whose related information is kept
_QUICK_S: Final = 0.02  # what may be done at once for every key that is pressed
_CALM: Final = 4  # of the time of the last one that is waited before a slower one
_LONGEST_S: Final = 0.3
_MOST_FILES: Final = 2000  # of one answer about the whole workspace


class Diagnostics(Feature):
    """Pushes after every event that can change them; a client that pulls is told to ask again instead."""

    def __init__(self, server: NecropsyServer) -> None:
        super().__init__(server)
        self.pulls = False
        self._related: dict[tuple[int, int], tuple[StoredFinding, list[types.DiagnosticRelatedInformation]]] = {}
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._took = 0.0
        server.session.changed.append(self._changed)

    def initialized(self) -> None:
        """Offer to be asked, if the client can ask."""
        self.pulls = self.server.session.settings.pull and self._can(PULL)
        if self.pulls:
            options = types.DiagnosticOptions(inter_file_dependencies=False, workspace_diagnostics=True)

            @self.server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)
            def one(params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
                return self.answer(params)

            @self.server.feature(types.WORKSPACE_DIAGNOSTIC)
            def every(params: types.WorkspaceDiagnosticParams) -> types.WorkspaceDiagnosticReport:
                return self.answer_all(params)

    def started(self) -> None:
        """Make ready what the first document would wait for: the converter writes its code when it is first used."""
        page_uri("CMP003")
        start = types.Position(0, 0)
        where = types.Range(start, start)
        related = types.DiagnosticRelatedInformation(types.Location("file:///", where), "")
        sample = types.Diagnostic(where, "", code_description=types.CodeDescription(""), related_information=[related])
        self.server.protocol._converter.unstructure(
            types.PublishDiagnosticsNotification(types.PublishDiagnosticsParams("file:///", [sample]))
        )

    def opened(self, document: TextDocument) -> None:
        """Show what is known about the document."""
        self._renew(document)

    def changed(self, document: TextDocument) -> None:
        """Move the diagnostics along with their lines; where that takes long, once for several keys."""
        if self._took < _QUICK_S:
            self._push(document)
        elif self._pushes() and is_python(document):
            self._drop(document.uri)
            wait = min(_LONGEST_S, _CALM * self._took)
            self._waiting[document.uri] = asyncio.get_running_loop().call_later(wait, self._late, document.uri)

    def saved(self, document: TextDocument) -> None:
        """Look again: a new report may have been stored meanwhile."""
        self._renew(document)

    def closed(self, document: TextDocument) -> None:
        """Remove the document's diagnostics."""
        self._drop(document.uri)
        if is_python(document) and self._pushes():
            self._send(document, [])

    def files_changed(self, paths: Collection[Path]) -> None:
        """Read the reports that were written or removed."""
        self.server.session.refresh()

    def diagnostics(self, document: TextDocument) -> list[types.Diagnostic]:
        """Diagnostics of the document, by line and then worst first."""
        session = self.server.session
        shown = [s for s in session.findings(document) if s.place_index == 0]
        most = session.settings.max_findings
        if len(shown) > most:
            shown = sorted(shown, key=lambda s: (s.stale, -_WORST.index(s.finding.severity)))[:most]
            shown.sort(key=lambda s: s.line)
        lines = document.plain_lines if isinstance(document, Document) else split_lines(document.source)
        look = self._look(document)
        with validators.disabled():  # half of the time for hundreds of findings; `convert` keeps to the ranges
            return [diagnostic_of(one, lines, look, self._links(one, look)) for one in shown]

    def _links(self, shown: Shown, look: Look) -> list[types.DiagnosticRelatedInformation]:
        """Related information: it is made once, since making it looks at files and typing must not wait."""
        key = (id(shown.finding), shown.place_index)
        known = self._related.get(key)
        if known is None or known[0] is not shown.finding:
            if len(self._related) > _LINKS:
                self._related.clear()
            known = self._related[key] = (shown.finding, related_of(shown, look))
        return known[1]

    def _look(self, document: TextDocument) -> Look:
        session = self.server.session
        which = "diagnostic" if self.pulls else "publish_diagnostics"
        path = path_of(document.uri)
        settings = session.settings_for(path.parent) if path is not None else session.settings

        def source(project: Path, place: Place) -> str | None:
            found = session.find_source(place, project)
            return from_fs_path(str(found)) if found is not None else None

        # LSP 3.17 has these abilities under `publishDiagnostics`; 3.18 also under `diagnostic`.
        related = self._able(which, "related_information")
        tags = self._able(which, "tag_support.value_set")
        return Look(
            codec=document.position_codec,
            inputs=cache(input_uri) if related else nowhere,
            sources=cache(source) if related else nowhere,
            page=page_uri if self._able(which, "code_description_support") else lambda code: None,
            level=settings.level,
            tags=frozenset(tags) if isinstance(tags, (list, tuple)) else frozenset(),
        )

    def _able(self, which: str, name: str) -> object:
        own = get_capability(self.server.client_capabilities, f"text_document.{which}.{name}")
        return own or get_capability(self.server.client_capabilities, f"text_document.publish_diagnostics.{name}")

    def _can(self, name: str) -> bool:
        return bool(get_capability(self.server.client_capabilities, name))

    def _pushes(self) -> bool:
        return self.server.session.settings.push and not self.pulls

    def _push(self, document: TextDocument) -> None:
        if self._pushes() and is_python(document):
            self._drop(document.uri)
            start = time.perf_counter()
            self._send(document, self.diagnostics(document))
            self._took = time.perf_counter() - start

    def _late(self, uri: str) -> None:
        if (document := self.server.workspace.text_documents.get(unquote(uri))) is not None:
            self.server.guarded(self, "changed", self._push, document)

    def _drop(self, uri: str) -> None:
        if (timer := self._waiting.pop(uri, None)) is not None:
            timer.cancel()

    def _renew(self, document: TextDocument) -> None:
        if not self.server.session.refresh() or self.pulls:  # a change shows every open document
            self._push(document)

    def _changed(self) -> None:
        """What is known has changed: for all documents that are open."""
        self._related.clear()
        if self.pulls:
            if self._can(REFRESH):
                self.server.workspace_diagnostic_refresh(None)
            return
        for document in list(self.server.workspace.text_documents.values()):
            self._push(document)

    def _send(self, document: TextDocument, diagnostics: list[types.Diagnostic]) -> None:
        self.server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=document.uri, version=document.version, diagnostics=diagnostics)
        )

    def answer(self, params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        """One document, or that it is as the client knows it."""
        document = self.server.workspace.get_text_document(params.text_document.uri)
        items = self.diagnostics(document) if is_python(document) else []
        version = result_id(items)
        if version == params.previous_result_id:
            return types.RelatedUnchangedDocumentDiagnosticReport(result_id=version)
        return types.RelatedFullDocumentDiagnosticReport(items=items, result_id=version)

    def answer_all(self, params: types.WorkspaceDiagnosticParams) -> types.WorkspaceDiagnosticReport:
        """Every file of the workspace that a finding names, and those that the client still shows."""
        known = {entry.uri: entry.value for entry in params.previous_result_ids}
        reports: list[types.WorkspaceDocumentDiagnosticReport] = []
        for uri in [*self._reported(), *(uri for uri in known)][:_MOST_FILES]:
            if any(report.uri == uri for report in reports):
                continue
            document = self.server.workspace.get_text_document(uri)
            try:
                items = self.diagnostics(document) if is_python(document) else []
            except (OSError, UnicodeDecodeError):  # gone or not text: nothing is known of it
                items = []
            version = result_id(items)
            if known.get(uri) == version:
                reports.append(types.WorkspaceUnchangedDocumentDiagnosticReport(uri, version, document.version))
            else:
                reports.append(
                    types.WorkspaceFullDocumentDiagnosticReport(uri, items, document.version, result_id=version)
                )
        return types.WorkspaceDiagnosticReport(reports)

    def _reported(self) -> list[str]:
        session = self.server.session
        session.refresh()
        opened = [document.uri for document in self.server.workspace.text_documents.values() if is_python(document)]
        found = dict.fromkeys(opened)
        by_path = {path_of(uri): uri for uri in opened}
        for path in session.reported_sources():
            uri = by_path.get(path) or from_fs_path(str(path))
            if uri and path.suffix == ".py":
                found[uri] = None
        return list(found)


_WORST: Final = ("note", "warning", "error", "fatal")


def is_python(document: TextDocument) -> bool:
    """Whether the document is a Python file, by what the client or its name says."""
    own = document.uri.startswith(("file:", "untitled:"))  # not a `git:` version of a file, for instance
    return own and (document.language_id == "python" or document.uri.endswith((".py", ".pyi")))


def result_id(items: list[types.Diagnostic]) -> str:
    """A name for these diagnostics: the same ones have the same."""
    return hashlib.sha256(msgspec.json.encode([repr(item) for item in items])).hexdigest()[:16]
