"""Open Python documents to published diagnostics, from the reports stored in the workspace."""

from __future__ import annotations

import os.path
from functools import cache, partial
from pathlib import Path
from typing import Final

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import TextDocument

from necropsy_lsp.convert import diagnostic_of, split_lines
from necropsy_lsp.feature import Feature
from necropsy_lsp.mapping import bases_of, is_meant

RELATED: Final = "text_document.publish_diagnostics.related_information"


def locate_input(project: Path, name: str) -> str | None:
    """URI of the input called `name`, relative to the project; None unless it is a file here."""
    if name.startswith(("//", "\\\\")):  # never let a report make Windows log in to a share
        return None
    path = os.path.abspath(project / name)
    return from_fs_path(path) if os.path.isfile(path) else None


def _nowhere(project: Path, name: str) -> None:
    """Locates no input, for a client that cannot show related information."""


class Diagnostics(Feature):
    """Publishes after every event that can change them; a closed document has none."""

    def opened(self, document: TextDocument) -> None:
        """Show what the stored reports say about the document."""
        self.publish(document)

    def changed(self, document: TextDocument) -> None:
        """Drop diagnostics whose line was edited."""
        self.publish(document)

    def saved(self, document: TextDocument) -> None:
        """Look again: a new report may have been stored meanwhile."""
        self.publish(document)

    def closed(self, document: TextDocument) -> None:
        """Remove the document's diagnostics."""
        self._send(document, [])

    def publish(self, document: TextDocument) -> None:
        """Compute and send the diagnostics of one document, if it is a Python file on this machine."""
        path = to_fs_path(document.uri)  # None for an editor's own `untitled:` and `git:` documents
        if path is not None and (document.language_id == "python" or path.endswith(".py")):
            self._send(document, self.diagnostics(document, Path(path)))

    def diagnostics(self, document: TextDocument, path: Path) -> list[types.Diagnostic]:
        """Diagnostics of the document, by line and then worst first."""
        bases = bases_of(path, self.server.folders())
        lines = split_lines(document.source)
        known = cache(locate_input if get_capability(self.server.client_capabilities, RELATED, False) else _nowhere)
        found: list[types.Diagnostic] = []
        for stored in self.server.stored_findings(bases):
            locate = partial(known, stored.project)
            diagnostic = diagnostic_of(stored.finding, lines, document.position_codec, locate)
            if diagnostic is not None and is_meant(stored.finding.code[0].file, path, bases):
                found.append(diagnostic)
        return sorted(found, key=lambda d: (d.range.start.line, d.severity or 0))

    def _send(self, document: TextDocument, diagnostics: list[types.Diagnostic]) -> None:
        self.server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=document.uri, version=document.version, diagnostics=diagnostics)
        )
